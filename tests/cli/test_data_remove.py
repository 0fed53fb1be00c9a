"""`fleetctl data remove`: what it asks, what stays, what it ends with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from fleetctl.cli.main import cli
from fleetctl.jobs import removal
from fleetctl.jobs.jobfile import read_job, write_job
from fleetctl.jobs.runs import RunFolder
from fleetctl.provision import data
from fleetctl.state import Holding, State

RACK = "rack: home\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-25]\n"
JOB = """\
train:
  {model: digits-cnn, data: digits, epochs: 1, global_batch: 8, optimizer: {name: sgd, lr: 0.1}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Phones 1 and 2 hold digits."""
    home = tmp_path / "home/home"
    monkeypatch.setenv("PHONERACK_HOME", str(home.parent))
    rack = tmp_path / "rack.yml"
    rack.write_text(RACK)
    monkeypatch.setenv("PHONERACK_RACK", str(rack))
    data.add(data.Wish("digits"), home / "data")
    with State(home / "state.db") as state:
        state.record_holdings(
            Holding(phone, "digits", "m", 2, 2, 1.0) for phone in ("phone001", "phone002")
        )
    return home


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Whom phones were asked of, and how those fail that do."""
    told: dict[str, Any] = {"phones": None, "failed": {}}

    async def remove(_fleet: Any, _state: Any, _name: str, phones: list[str]) -> dict[str, str]:
        told["phones"] = list(phones)
        return {phone: f"{phone} is away" for phone in told["failed"] if phone in phones}

    monkeypatch.setattr(removal, "remove_from_phones", remove)
    return told


def remove(*words: str, answer: str = "y\n") -> Any:
    return CliRunner().invoke(
        cli, ["data", "remove", "digits", *words], input=answer, standalone_mode=False
    )


def test_it_goes_from_the_phones_that_hold_it_and_from_here(home: Path, asked: Any) -> None:
    done = remove()
    assert "from 2 phones and this controller?" in done.stderr
    assert asked["phones"] == ["phone001", "phone002"]
    assert list((home / "data").iterdir()) == []


def test_nothing_goes_without_a_yes(home: Path, asked: Any) -> None:
    remove(answer="n\n")
    assert asked["phones"] is None
    assert (home / "data/digits").is_dir()


def test_from_these_phones_only(home: Path, asked: Any) -> None:
    document = json.loads(remove("phone[002-003]", "--yes", "-o", "json").stdout)
    assert document["phones"] == {"phone002": {"problem": None}, "phone003": {"problem": None}}
    assert document["controller"] is False
    assert (home / "data/digits").is_dir()


def test_it_stays_here_while_a_phone_that_holds_it_is_away(home: Path, asked: Any) -> None:
    asked["failed"] = {"phone002"}
    done = remove("--yes")
    assert done.return_value == 3
    assert "not removed: phone002 is away" in done.stderr
    assert (home / "data/digits").is_dir()
    asked["failed"] = {"phone001", "phone002"}
    assert remove("--yes").return_value == 4


@pytest.fixture
def job(tmp_path: Path) -> Path:
    job = tmp_path / "job.yml"
    job.write_text(JOB)
    return job


def begin_run(home: Path, job: Path) -> None:
    run = RunFolder(home / "runs/some-1")
    run.path.mkdir(parents=True)
    write_job(read_job(job), run.job_file)
    run.record("created", phones=["phone001"])


def test_what_is_trained_on_stays(home: Path, asked: Any, job: Path) -> None:
    begin_run(home, job)
    error: Any = remove("--yes").exception
    assert isinstance(error, removal.DataInUse)
    assert asked["phones"] is None
    assert (home / "data/digits").is_dir()


def test_what_is_trained_on_since_the_question_stays(
    home: Path, asked: Any, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(click, "confirm", lambda *_, **__: begin_run(home, job))
    error: Any = remove().exception
    assert isinstance(error, removal.DataInUse)
    assert asked["phones"] is None
    assert (home / "data/digits").is_dir()


@pytest.mark.parametrize("name", ["../runs", "..", ".", "digits/..", "/srv", ".digits", ""])
@pytest.mark.parametrize("command", ["remove", "check"])
@pytest.mark.parametrize("nodes", [(), ("phone[001-003]",)], ids=["all", "nodes"])
def test_what_is_no_name_is_refused_at_once(
    home: Path, asked: Any, name: str, command: str, nodes: tuple[str, ...]
) -> None:
    (home / "runs/some-1").mkdir(parents=True)
    words = ["data", command, name, *nodes]
    done = CliRunner().invoke(cli, words, input="y\n", standalone_mode=False)
    assert f"{name!r} is no name for a data set" in str(done.exception)
    assert done.output == ""
    assert asked["phones"] is None
    assert (home / "runs/some-1").is_dir()
    assert (home / "data/digits").is_dir()


def test_what_was_never_there_is_said(home: Path, asked: Any) -> None:
    done = CliRunner().invoke(cli, ["data", "remove", "flowers", "-y"], standalone_mode=False)
    assert "no data set 'flowers', here or on a phone" in str(done.exception)
