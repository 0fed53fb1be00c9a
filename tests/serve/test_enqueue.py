"""Into the queue and out of it: the folder is whole, bad input leaves nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleetctl.errors import FleetError
from fleetctl.jobs.choose import Wish, read_wish
from fleetctl.jobs.jobfile import Job, JobError, read_job
from fleetctl.jobs.launch import Request
from fleetctl.serve.enqueue import enqueue, withdraw
from fleetctl.serve.lock import serving
from fleetctl.serve.outlook import outlook
from fleetctl.serve.queue import NotWaiting
from fleetctl.serve.stop import stop_unstarted


def test_a_queued_jobs_folder_holds_all_of_it_as_it_was_then(paper: Any, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("one")
    job = Job(
        name="mine", phones="2", command=["python", "train.py"], priority=3, time_limit="1h30m"
    )
    request = Request(job, read_wish(paper.rack, "2", {}), (script,))

    entry = enqueue(paper.rack, paper.paths, paper.queue, request, "ada")
    script.write_text("two")

    assert (entry.name, entry.least, entry.most, entry.limit_seconds) == ("mine-1", 2, 2, 5400.0)
    assert entry.priority == 3
    run = paper.run("mine-1")
    assert (run.path / "files/train.py").read_text() == "one"
    assert read_job(run.job_file) == job
    assert paper.queue.jobs() == [entry]


TRAIN = {
    "model": "digits-cnn",
    "data": "no-such-data",
    "epochs": 1,
    "global_batch": 8,
    "optimizer": {"name": "sgd", "lr": 0.1},
}


def test_what_could_never_start_is_refused_and_leaves_nothing(paper: Any) -> None:
    job = Job.model_validate({"name": "digits", "phones": "2", "train": TRAIN})
    request = Request(job, read_wish(paper.rack, "2", {}))

    with pytest.raises(FleetError, match="no-such-data"):
        enqueue(paper.rack, paper.paths, paper.queue, request, "ada")
    assert list(paper.paths.runs.iterdir()) == []
    assert paper.queue.jobs() == []


def test_a_training_on_a_rack_without_torch_does_not_wait(paper: Any) -> None:
    rack = replace(paper.rack, versions=replace(paper.rack.versions, torch="none"))
    job = Job.model_validate({"name": "digits", "phones": "2", "train": TRAIN})
    with pytest.raises(JobError, match="its phones cannot train"):
        enqueue(rack, paper.paths, paper.queue, Request(job, read_wish(rack, "2", {})), "ada")


def test_a_job_does_not_wait_for_a_place_without_a_phone(paper: Any) -> None:
    phones = {**paper.rack.phones}
    phones["phone002"] = replace(phones["phone002"], enrolled=False)
    rack = replace(paper.rack, phones=phones)
    request = Request(Job(name="mine", command=["true"]), Wish(named=("phone001", "phone002")))
    with pytest.raises(JobError, match=r"^phone002: no phone is in that place"):
        enqueue(rack, paper.paths, paper.queue, request, "ada")
    assert paper.queue.jobs() == []


def test_a_name_used_twice_is_refused_with_the_next_free_one(paper: Any) -> None:
    paper.enqueue(name="mine-7")

    with pytest.raises(
        JobError, match="there is a run mine-7 already; the next free name is mine-8"
    ):
        paper.enqueue(name="mine-7")
    assert [entry.name for entry in paper.queue.jobs()] == ["mine-7"]


def test_a_job_that_is_taken_out_stays_known_as_stopped(paper: Any) -> None:
    name = paper.enqueue().name

    withdraw(paper.paths, paper.queue, name, "ada")

    summary = paper.run(name).summary()
    assert (summary.state, summary.reason) == ("stopped", "taken out of the queue by ada")
    with pytest.raises(NotWaiting):
        withdraw(paper.paths, paper.queue, name, "ada")


def test_stop_takes_out_what_waits_and_leaves_alone_what_runs(paper: Any) -> None:
    waits, given, runs = (paper.enqueue().name for _ in range(3))
    for name in (given, runs):
        paper.queue.give(name, ["phone001"])
    paper.run(runs).record("created", phones=["phone001"])

    assert stop_unstarted(paper.paths, waits)
    assert stop_unstarted(paper.paths, given)
    assert not stop_unstarted(paper.paths, runs)
    assert not stop_unstarted(paper.paths, "no-job-of-the-queue-1")

    assert [paper.run(name).summary().state for name in (waits, given)] == ["stopped"] * 2
    assert [entry.name for entry in paper.queue.jobs()] == [runs]


def test_whoever_asks_is_told_why_each_job_waits(paper: Any) -> None:
    running, first, second = (paper.enqueue(n).name for n in ("6", "4", "8"))
    paper.queue.give(running, [f"phone00{n}" for n in range(1, 7)])
    paper.run(running).record("created", phones=[f"phone00{n}" for n in range(1, 7)])

    seen = outlook(paper.rack, paper.paths, paper.state, now=paper.queue.jobs()[0].arrived)

    assert seen.served is None
    assert {job.name: job.why for job in seen.jobs} == {
        first: f"4 wanted, 2 free; when is not known: {running} has no time limit",
        second: f"8 wanted, 2 free; {first} is first",
    }
    assert seen.jobs[0].as_json()["why"] == seen.jobs[0].why
    with serving(paper.paths.serve_lock):
        served = outlook(paper.rack, paper.paths, paper.state, now=0.0).served
    assert served is not None
    assert served.pid == os.getpid()
