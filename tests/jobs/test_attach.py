"""Runs that nobody supervises: settled when their end is proven, else left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from fleetctl.cli import jobs, stop
from fleetctl.cli.common import App
from fleetctl.errors import ExitCode
from fleetctl.jobs import attach, runs
from fleetctl.jobs.launch import Room
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.settle import settle
from fleetctl.rack import RackPaths
from fleetctl.remote import Fault, PhoneError, Result
from fleetctl.state import State

PHONES = ("phone001", "phone002", "phone003")


class FakeFleet:
    """Phones that say the same to whatever they are asked; an error instead of an answer."""

    def __init__(self, **answers: str | Fault) -> None:
        self.answers = answers

    async def run_on(self, name: str, _command: str, **_: Any) -> Result:
        said = self.answers[name]
        if isinstance(said, Fault):
            return Result(None, error=PhoneError(name, said, f"{name} is {said}"))
        return Result(0, said)

    async def run(self, names: Any, command: str, **_: Any) -> dict[str, Result]:
        return {name: await self.run_on(name, command) for name in names}

    async def get(self, name: str, remote: str, _local: Path, **_: Any) -> None:
        raise PhoneError(name, Fault.FAILED, f"{name} has no {remote}")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "state.db") as state:
        yield state


@pytest.fixture
def remarks() -> list[str]:
    return []


@pytest.fixture
def run(tmp_path: Path, state: State) -> RunFolder:
    return running(tmp_path, state, PHONES)


def running(tmp_path: Path, state: State, phones: tuple[str, ...]) -> RunFolder:
    """A run that went on when its supervisor left."""
    run = runs.create(tmp_path / "runs", "digits")
    state.allocate(run.name, phones)
    run.record("created", phones=phones)
    run.record("started", head=phones[0], pid=7)
    return run


@pytest.fixture
def room(tmp_path: Path, state: State, remarks: list[str]) -> Any:
    def made(fleet: FakeFleet) -> Room:
        rack: Any = SimpleNamespace(phones={})
        paths: Any = SimpleNamespace(runs=tmp_path / "runs")
        any_fleet: Any = fleet
        return Room(any_fleet, rack, state, paths, remarks.append)

    return made


def held(state: State) -> set[str]:
    return {name for name, facts in state.phones().items() if facts.run}


GONE = "\n"
"""No process of the run on that phone."""


def test_a_controller_that_lost_its_network_leaves_the_run_alone(
    room: Any, run: RunFolder, state: State, remarks: list[str]
) -> None:
    fleet = FakeFleet(**dict.fromkeys(PHONES, Fault.UNREACHABLE))
    asyncio.run(attach.refresh_all(room(fleet)))
    assert run.summary().state == "running"
    assert held(state) == set(PHONES)
    assert remarks == [
        "digits-1 cannot be asked now, so it stays as it is: phone001 is unreachable"
    ]


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.THROTTLED, Fault.AUTH])
def test_a_head_that_is_up_but_cannot_be_asked_proves_nothing(
    room: Any, run: RunFolder, fault: Fault
) -> None:
    fleet = FakeFleet(phone001=fault, phone002=GONE, phone003=GONE)
    asyncio.run(attach.refresh_all(room(fleet)))
    assert run.summary().state == "running"


def test_ranks_that_still_run_keep_the_run_open(room: Any, run: RunFolder) -> None:
    fleet = FakeFleet(phone001=Fault.LOST, phone002=GONE, phone003="S R \n")
    asyncio.run(attach.refresh_all(room(fleet)))
    assert run.summary().state == "running"


def test_a_lost_head_with_no_rank_left_elsewhere_is_the_end(
    room: Any, run: RunFolder, state: State
) -> None:
    fleet = FakeFleet(phone001=Fault.LOST, phone002=GONE, phone003=Fault.LOST)
    asyncio.run(attach.refresh_all(room(fleet)))
    summary = run.summary()
    assert summary.state == "failed"
    assert "phone001 is connection lost" in str(summary.reason)
    assert held(state) == set()


def test_a_run_of_one_phone_that_does_not_answer_is_left_alone(
    room: Any, tmp_path: Path, state: State
) -> None:
    run = running(tmp_path, state, PHONES[:1])
    asyncio.run(attach.refresh_all(room(FakeFleet(phone001=Fault.UNREACHABLE))))
    assert run.summary().state == "running"
    assert held(state) == {"phone001"}


def test_phones_of_a_launch_that_was_cut_off_before_its_run_began_come_back(
    room: Any, tmp_path: Path, state: State
) -> None:
    runs.create(tmp_path / "runs", "cut")
    state.allocate("cut-1", PHONES[:1])
    going_on = runs.create(tmp_path / "runs", "going-on")
    state.allocate(going_on.name, PHONES[1:])
    with going_on.supervise():
        asyncio.run(attach.refresh_all(room(FakeFleet())))
    assert held(state) == set(PHONES[1:])


def test_jobs_gives_back_the_phones_of_a_launch_that_was_cut_off_though_no_run_is_open(
    tmp_path: Path, state: State
) -> None:
    folder = tmp_path / "runs"
    runs.create(folder, "cut")
    state.allocate("cut-1", PHONES)
    app = App()
    paths = RackPaths(tmp_path.name, tmp_path.parent)
    app.__dict__ |= {"rack": SimpleNamespace(), "paths": paths, "state": state}
    assert CliRunner().invoke(jobs.command, [], obj=app).exit_code == 0
    assert held(state) == set()


def test_a_stop_names_the_phones_that_it_did_not_reach(room: Any, run: RunFolder) -> None:
    fleet = FakeFleet(phone001="", phone002=Fault.UNREACHABLE, phone003="")
    summary = asyncio.run(attach.stop(room(fleet), run))
    assert summary.state == "stopped"
    assert summary.left == {"phone002": "phone002 is unreachable"}
    assert summary.reason == "stopped by the operator; phone002 is unreachable"
    fleet.answers["phone003"] = "71 72\n"
    again = asyncio.run(attach.stop(room(fleet), run))
    assert set(again.left) == {"phone002", "phone003"}
    assert "71, 72" in again.left["phone003"]
    fleet.answers = dict.fromkeys(PHONES, "")
    assert asyncio.run(attach.stop(room(fleet), run)).left == {}


@pytest.mark.parametrize(
    ("left", "code"), [({}, ExitCode.DONE), ({"phone002": "away"}, ExitCode.SOME_PHONES_FAILED)]
)
def test_the_exit_code_of_a_stop_says_whether_all_is_gone(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, left: dict[str, str], code: int
) -> None:
    async def stopped(*_: Any) -> runs.Summary:
        return runs.Summary(run.name, "stopped", PHONES, left=left)

    monkeypatch.setattr("fleetctl.cli.stop._stop", stopped)
    app = App()
    folder = run.path.parent.parent
    app.__dict__["paths"] = RackPaths(folder.name, folder.parent)
    done = CliRunner().invoke(stop.command, [run.name], obj=app)
    assert done.exit_code == code
    assert ("away" in done.stderr) == bool(left)


def test_a_phone_whose_rank_froze_is_swept_and_has_not_been_away(
    room: Any, run: RunFolder, state: State
) -> None:
    fleet = FakeFleet(phone001="", phone002="", phone003="")
    refused = PhoneError("phone003", Fault.AUTH, "phone003 refuses the key")
    blamed: dict[str, Any] = {"phone002": "phone002 answers, but froze", "phone003": refused}
    here = room(fleet)
    verdict = asyncio.run(settle(here.fleet, state, run, PHONES, {}, blamed=blamed))
    assert verdict.reason is not None
    assert sorted(verdict.reason.split("; ")) == [str(why) for why in blamed.values()]
    assert [*verdict.culprits] == ["phone002"], "one that refuses us answers"
    assert verdict.left == {"phone003": "phone003 refuses the key"}
    assert [p for p, facts in state.phones().items() if facts.contact.missed_since] == []
