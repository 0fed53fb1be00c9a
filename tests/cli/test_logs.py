"""`fleetctl logs`: what ranks said, attempt after attempt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fleetctl.cli.log_tail import Line, Tail
from fleetctl.cli.main import cli
from fleetctl.jobs.runs import RunFolder

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
