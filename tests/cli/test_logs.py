"""`fleetctl logs`: what ranks said, attempt after attempt."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fleetctl.cli.log_tail import Line, Tail
from fleetctl.cli.main import cli
from fleetctl.jobs.jobfile import Job, write_job
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.verdict import Verdict
from fleetctl.rack import RackPaths
from fleetctl.serve.lock import serving
from fleetctl.serve.queue import Entry, Queue

RACK = "rack: home\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-25]\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of two attempts, the second without the phone that failed."""
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    rack = tmp_path / "rack.yml"
    rack.write_text(RACK)
    monkeypatch.setenv("PHONERACK_RACK", str(rack))
    folder = tmp_path / "home/home/runs/digits-1"
    (folder / "attempts/2").mkdir(parents=True)
    found = RunFolder(folder)
    found.record("created", phones=["phone001", "phone002"])
    found.record("started")
    found.record("attempt-ended", reason="phone001 is lost")
    found.record("attempt", number=2, phones=["phone002"])
    (folder / "mpirun.log").write_text(
        "[1,0]<stdout>: a\n[prterun-x@1,1]<stderr>: b\nmpirun speaks\n[1,0]<stdout>: cut o"
    )
    (folder / "attempts/2/mpirun.log").write_text("[1,0]<stdout>: again\n")
    return found


def fleetctl(*words: str) -> Any:
    return CliRunner().invoke(cli, words, standalone_mode=False)


def test_every_line_bears_the_phone_that_said_it_then(run: RunFolder) -> None:
    said = fleetctl("logs").stdout.splitlines()
    assert said == ["phone001: a", "phone002: b", "mpirun speaks", "phone002: again"]


def test_one_rank_alone(run: RunFolder) -> None:
    assert fleetctl("logs", "digits-1", "--rank", "1").stdout == "phone002: b\n"


def test_programs_get_rank_phone_and_attempt(run: RunFolder) -> None:
    document = json.loads(fleetctl("logs", "-o", "json").stdout)
    assert document["schema"] == 1
    assert document["lines"][3] == {
        "attempt": 2,
        "rank": 0,
        "phone": "phone002",
        "text": "again",
    }


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--rank", "2"), "its ranks are 0 to 1"),
        (("-f", "-o", "json"), "leave out -o json"),
        (("nobody-1",), "there is no run 'nobody-1'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    run: RunFolder, words: tuple[str, ...], complaint: str
) -> None:
    problem = fleetctl("logs", *words).exception
    assert complaint in str(getattr(problem, "message", problem))
    assert problem.exit_code == 2


def test_a_line_comes_once_and_only_when_it_is_whole(run: RunFolder) -> None:
    taken: list[Line] = []
    tail = Tail(run, None, taken.append)
    tail.read()
    tail.read()
    assert len(taken) == 4
    with (run.path / "mpirun.log").open("a") as log:
        log.write("ff\n[1,1]<stdout>: caf\N{LATIN SMALL LETTER E WITH ACUTE}\n")
    tail.read()
    assert [line.text for line in taken[4:]] == ["cut off", "café"]
    (run.path / "attempts/3").mkdir()
    run.record("attempt", number=3, phones=["phone005"])
    (run.path / "attempts/3/mpirun.log").write_text("[1,0]<stdout>: third\n")
    tail.read()
    assert str(taken[-1]) == "phone005: third"


def test_a_follower_that_supervises_ends_the_run_at_its_time_limit(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def carried(_: Any, run: RunFolder, **options: Any) -> Verdict:
        async with asyncio.timeout(30):
            await options["stop_requested"].wait()
        run.record("ended", state="stopped", reason=run.stop_reason)
        return Verdict("stopped", run.stop_reason, {}, None, {})

    monkeypatch.setattr("fleetctl.jobs.foreground.carry", carried)
    write_job(Job(name="digits", command=["true"], time_limit=60.0), run.job_file)
    text = run.events_file.read_text()
    began = json.loads(text.splitlines()[0])["time"]
    run.events_file.write_text(text.replace(f"{began}", f"{began - 60}", 1))

    said = fleetctl("logs", "-f")
    assert said.exception is None
    assert "this terminal does now" in said.stderr
    assert run.summary().reason == "time limit of 1m"


def ended_by_another(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What `logs -f` says of a run that somebody else ends, once it has waited for that."""

    def end(_: float) -> None:
        run.record("ended", state="done", reason=None)

    async def carried(*_: Any, **__: Any) -> Verdict:
        raise AssertionError("this terminal took the run over")

    monkeypatch.setattr("fleetctl.cli.logs.time.sleep", end)
    monkeypatch.setattr("fleetctl.jobs.foreground.carry", carried)
    said = fleetctl("logs", "-f")
    assert said.exception is None
    return said.stderr


def test_a_run_that_waits_in_the_queue_again_is_followed_and_not_taken_out_of_turn(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = RackPaths("home")
    with Queue(paths.queue_db) as queue:
        queue.add(Entry(0, run.name, arrived=1.0, who="ann"))
    said = ended_by_another(run, monkeypatch)
    assert "digits-1 waits in the queue until `fleetctl serve` runs" in said
    assert "digits-1 done" in said


def test_a_served_rack_looks_after_its_runs_itself(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(RackPaths("home").serve_lock):
        said = ended_by_another(run, monkeypatch)
    assert "`fleetctl serve` comes back to it" in said
