"""The service: it starts what may start, keeps every job supervised, and may come and go."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetctl.serve import service as service_module
from fleetctl.serve.service import Service, Turn

SUPERVISOR = (sys.executable, str(Path(__file__).with_name("a_supervisor.py")))
LIMIT_SECONDS = 30.0


@pytest.fixture
def serve(paper: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Service]]:
    """Makes services of the rack; what they have started ends with the test."""
    monkeypatch.setattr(service_module, "ADOPT_SECONDS", 0.0)
    monkeypatch.setattr(service_module, "AGAIN_SECONDS", (0.0, 0.0))

    def made() -> Service:
        said = paper.said.append
        return Service(
            paper.rack_file, paper.paths, paper.state, paper.queue, said, supervisor=SUPERVISOR
        )

    yield made
    for folder in paper.paths.runs.iterdir():
        (folder / "end").touch()
        while paper.run(folder.name).supervised:
            time.sleep(0.02)


def until(service: Service, happens: Callable[[Turn], object]) -> Turn:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not happens(turn := service.turn()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return turn


def supervised(paper: Any, *names: str) -> Callable[[Turn], bool]:
    return lambda _: all(paper.run(name).supervised and paper.run(name).events() for name in names)


def test_jobs_run_side_by_side_and_the_next_one_follows(paper: Any, serve: Any) -> None:
    paper.state.drain(["phone008"], "ada", "battery swollen")
    first, second, third = (paper.enqueue(n).name for n in ("4", "3", "2"))
    service = serve()

    turn = until(service, supervised(paper, first, second))

    assert paper.run(first).summary().phones == tuple(f"phone00{n}" for n in range(1, 5))
    assert paper.run(second).summary().phones == ("phone005", "phone006", "phone007")
    assert turn.decision.waits == {
        third: f"2 wanted, 0 free; when is not known: {first} has no time limit"
    }

    (paper.run(second).path / "end").touch()
    until(service, supervised(paper, third))
    assert paper.run(third).summary().phones == ("phone005", "phone006")
    assert [entry.name for entry in paper.queue.jobs()] == [first, third]
    assert f"{second} is over: done" in paper.said


def test_a_spare_is_held_beside_those_that_train_and_known_as_such(paper: Any, serve: Any) -> None:
    job = paper.enqueue_training("3", spares=1).name

    until(serve(), supervised(paper, job))

    entry = paper.queue.get(job)
    assert (entry.phones, entry.ranks) == (("phone001", "phone002", "phone003", "phone004"), 3)
    assert f"{job} starts on 3 phones and 1 spare" in paper.said


def test_another_service_finds_all_as_it_was(paper: Any, serve: Any) -> None:
    job = paper.enqueue("8").name
    until(serve(), supervised(paper, job))
    pid = paper.run(job).supervisor()

    other = serve()
    for _ in range(3):
        other.turn()
    assert paper.run(job).supervisor() == pid

    # The controller was restarted: no supervisor is left, and the job goes on on its phones.
    os.kill(pid, signal.SIGKILL)
    until(other, lambda _: paper.run(job).supervisor() not in (pid, None))
    assert [event["kind"] for event in paper.run(job).events()] == ["created", "started"]


def test_a_service_that_died_after_its_decision_left_nothing_behind(paper: Any, serve: Any) -> None:
    job = paper.enqueue("2").name
    paper.queue.give(job, ["phone003", "phone004"])  # and then the power went

    until(serve(), supervised(paper, job))

    assert paper.run(job).summary().phones == ("phone003", "phone004")


def test_a_run_that_a_terminal_left_behind_is_taken_over(paper: Any, serve: Any) -> None:
    run = paper.run("left-1")
    run.path.mkdir(parents=True)
    paper.state.allocate("left-1", ["phone001"])
    run.record("created", phones=["phone001"])
    waiting = paper.enqueue("8").name

    turn = until(serve(), supervised(paper, "left-1"))

    assert "nobody supervises left-1: taken over" in paper.said
    assert turn.decision.waits[waiting].startswith("8 wanted, 7 free")


def test_a_supervisor_that_cannot_run_is_told_of_and_tried_again(paper: Any, serve: Any) -> None:
    job = paper.enqueue("2").name
    service = serve()
    service.supervisor = (sys.executable, "-c", "raise SystemExit(7)")

    until(service, lambda _: len(paper.said) >= 3)
    assert f"the supervisor of {job} ended with 7; see " in paper.said[1]

    service.supervisor = SUPERVISOR
    until(service, supervised(paper, job))


def test_a_changed_rack_file_counts_and_one_with_a_mistake_does_not(paper: Any, serve: Any) -> None:
    service = serve()
    text = paper.rack_file.read_text()
    paper.rack_file.write_text(text.replace("medium: ethernet", "medium: pigeons"))
    os.utime(paper.rack_file, (1, 1))
    assert len(service.turn().board.states) == 8
    assert "cannot be read; the old one holds" in paper.said[0]

    paper.rack_file.write_text(
        text.replace("005-008", "005-007")
        .replace("15-18", "15-17")
        .replace("sw2, ports: 1-4", "sw2, ports: 1-3")
    )
    os.utime(paper.rack_file, (2, 2))
    assert len(service.turn().board.states) == 7


def test_a_job_whose_folder_is_gone_leaves_the_queue(paper: Any, serve: Any) -> None:
    job = paper.enqueue("8").name
    service = serve()
    until(service, supervised(paper, job))
    waiting = paper.enqueue("8")
    paper.run(waiting.name).job_file.unlink()
    paper.run(waiting.name).path.rmdir()
    paper.queue.give(waiting.name, ["phone001"])

    service.turn()

    assert [entry.name for entry in paper.queue.jobs()] == [job]


def test_a_phone_that_a_run_has_given_back_is_free_for_others(paper: Any, serve: Any) -> None:
    job = paper.enqueue("8").name
    service = serve()
    until(service, supervised(paper, job))
    paper.state.release(job)
    paper.state.allocate(job, ["phone001", "phone002"])  # a later attempt goes on with fewer

    beside = paper.enqueue("6").name
    until(service, supervised(paper, beside))

    assert paper.run(beside).summary().phones == tuple(f"phone00{n}" for n in range(3, 9))
