"""Launches that are cut off: no phone stays held, and nothing of them stays on a phone."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetctl.checks.phone import PhoneFacts
from fleetctl.errors import ExitCode
from fleetctl.jobs import choose, launch, onphone, past
from fleetctl.jobs.jobfile import Job, Train
from fleetctl.jobs.launch import Chosen, Prepared, Request, Room
from fleetctl.jobs.planning import build_plan
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.staging import StagingError
from fleetctl.rack import Network, Phone, Rack
from fleetctl.remote import Fault, PhoneError, Result
from fleetctl.state import PhoneFacts as StateFacts
from fleetctl.state import State, derive
from trainer.formats import MemoryNeed

RACK = Rack(
    name="r",
    network=Network(IPv4Network("10.0.0.0/24"), "ethernet"),
    phones={f"phone00{n}": Phone(f"phone00{n}", f"10.0.0.{n}") for n in (1, 2)},
)
PHONES = tuple(RACK.phones)
REQUEST = Request(Job(name="true", command=["true"]), choose.Wish())
TRAINING = Job.model_validate(
    {
        "name": "true",
        "train": {
            "model": "digits-cnn",
            "data": "digits",
            "epochs": 1,
            "global_batch": 8,
            "optimizer": {"name": "sgd", "lr": 0.1},
        },
    }
)


class FakeFleet:
    """Phones that take every file; the start of mpirun lasts until somebody loses patience."""

    def __init__(self, start: Result | None = None, slow_copy: bool = False) -> None:
        self.start = start
        self.slow_copy = slow_copy
        self.starting = asyncio.Event()
        self.done: list[tuple[str, str]] = []
        self.unreachable: set[str] = set()
        self.lost_in_copy: set[str] = set()

    async def put(self, names: Any, *_: Any, **__: Any) -> dict[str, PhoneError | None]:
        if self.slow_copy:
            self.starting.set()
            await asyncio.Future()
        lost = {name: PhoneError(name, Fault.LOST, f"{name} is gone") for name in self.lost_in_copy}
        return {name: lost.get(name) for name in names}

    async def run_on(self, name: str, command: str, **_: Any) -> Result:
        if command == onphone.start_command("true-1"):
            self.starting.set()
            return self.start or await asyncio.Future()
        await asyncio.sleep(0.01)
        if name in self.unreachable:
            return Result(None, error=PhoneError(name, Fault.UNREACHABLE, f"{name} is away"))
        self.done.append((name, command))
        return Result(0)

    async def run(self, names: Any, command: str, **_: Any) -> dict[str, Result]:
        return {name: await self.run_on(name, command) for name in names}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "state.db") as state:
        yield state


@pytest.fixture
def room(tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch) -> Any:
    facts = {name: PhoneFacts(name, phone.address) for name, phone in RACK.phones.items()}

    async def chosen(*_: Any) -> Chosen:
        return Chosen(PHONES, facts, 0.1)

    monkeypatch.setattr("fleetctl.jobs.launch.choose_phones", chosen)
    paths: Any = SimpleNamespace(runs=tmp_path / "runs")

    def made(fleet: Any) -> Room:
        return Room(fleet, RACK, state, paths, lambda _: None)

    return made


def held(state: State) -> list[str]:
    return [name for name, facts in state.phones().items() if facts.run]


def events(tmp_path: Path) -> list[dict[str, Any]]:
    return launch.RunFolder(tmp_path / "runs/true-1").events()


def test_a_full_disk_leaves_no_phone_held_and_no_folder(
    room: Any, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def go() -> None:
        with ExitStack() as stack:
            await launch.launch(room(FakeFleet()), REQUEST, stack)

    monkeypatch.setattr("fleetctl.jobs.launch.write_job", full)
    with pytest.raises(OSError, match="No space"):
        asyncio.run(go())
    assert held(state) == []
    assert list((tmp_path / "runs").iterdir()) == []


def test_what_a_rehearsal_found_is_kept_for_further_attempts(
    room: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Train.model_validate(
        {
            **{"model": "resnet-50", "data": "images", "epochs": 1, "global_batch": 8},
            "optimizer": {"name": "sgd", "lr": 0.1},
        }
    )
    plan, need = build_plan(train, "r-1", PHONES), MemoryNeed(1, 2, 3, 4)

    def prepare(_: Any, __: Any, chosen: Chosen, *___: Any) -> Prepared:
        return Prepared("r-1", chosen, plan, ("mpirun",), "5.0", True)

    async def found(*_: Any) -> MemoryNeed:
        return need

    async def begun(*_: Any) -> None:
        return

    monkeypatch.setattr(launch, "prepare", prepare)
    monkeypatch.setattr(launch.rehearsal, "rehearse", found)
    monkeypatch.setattr(launch, "begin", begun)
    request = Request(Job(name="r", train=train), choose.Wish())

    async def go() -> launch.RunFolder:
        with ExitStack() as stack:
            here = room(FakeFleet())
            here.paths.data = tmp_path
            return (await launch.launch(here, request, stack))[0]

    assert asyncio.run(go()).memory() == need


def test_a_phone_that_is_drained_in_the_midst_of_a_launch_is_left_out(
    room: Any, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_phones = launch.choose_phones

    async def chosen(*given: Any) -> Chosen:
        free = [phone for phone in PHONES if not state.phones()[phone].drains]
        state.drain(["phone001"], "ada", "battery swollen")
        return replace(await choose_phones(*given), phones=tuple(free))

    async def go() -> Prepared:
        for phone in PHONES:
            state.record_health(phone, "OK")
        with ExitStack() as stack:
            return (await launch.launch(room(FakeFleet(Result(0, "1"))), REQUEST, stack))[1]

    monkeypatch.setattr(launch, "choose_phones", chosen)
    assert asyncio.run(go()).chosen.phones == ("phone002",)
    assert held(state) == ["phone002"]


ENDED = [
    (PHONES[0], onphone.end_mpirun("true-1")),
    *((phone, onphone.sweep("true-1")) for phone in PHONES),
]


@pytest.mark.parametrize("presses", [1, 3])
def test_ctrl_c_while_mpirun_is_being_started_ends_what_may_run_by_now(
    room: Any, state: State, tmp_path: Path, presses: int
) -> None:
    async def go() -> list[tuple[str, str]]:
        fleet = FakeFleet()
        with ExitStack() as stack:
            task = asyncio.create_task(launch.launch(room(fleet), REQUEST, stack))
            await fleet.starting.wait()
            for _ in range(presses):
                task.cancel()
                await asyncio.sleep(0.001)
            with pytest.raises(asyncio.CancelledError):
                await task
        return fleet.done

    assert asyncio.run(go()) == ENDED
    assert held(state) == []
    assert events(tmp_path)[-1]["state"] == "stopped"


def test_a_start_that_takes_too_long_is_ended_everywhere_and_says_where_it_is_not(
    room: Any, state: State, tmp_path: Path
) -> None:
    async def go() -> list[tuple[str, str]]:
        late = PhoneError(PHONES[0], Fault.TIMEOUT, "phone001 did not finish")
        fleet = FakeFleet(Result(None, error=late))
        fleet.unreachable = {"phone002"}
        with ExitStack() as stack, pytest.raises(launch.StartError):
            await launch.launch(room(fleet), REQUEST, stack)
        return fleet.done

    assert asyncio.run(go()) == ENDED[:2]
    assert held(state) == []
    reason = events(tmp_path)[-1]["reason"]
    assert "phone001 did not finish" in reason
    assert "phone002 is away" in reason


def test_ctrl_c_in_a_start_says_and_exits_with_3_when_a_phone_could_not_be_cleared(
    room: Any, state: State, tmp_path: Path
) -> None:
    async def go() -> None:
        fleet = FakeFleet()
        fleet.unreachable = {"phone002"}
        with ExitStack() as stack:
            task = asyncio.create_task(launch.launch(room(fleet), REQUEST, stack))
            await fleet.starting.wait()
            task.cancel()
            await task

    with pytest.raises(launch.NotCleared, match="`fleetctl stop true-1` clears phone002") as caught:
        asyncio.run(go())
    assert caught.value.exit_code == ExitCode.SOME_PHONES_FAILED
    assert held(state) == []
    assert events(tmp_path)[-1]["left"] == {"phone002": "phone002 is away"}


def interrupted(room: Any, tmp_path: Path, fleet: FakeFleet, request: Request) -> RunFolder:
    """The run of a job of the queue whose supervisor was asked to go in the midst of its start."""
    run = RunFolder(tmp_path / "runs/true-1")
    run.path.mkdir(parents=True)

    async def go() -> None:
        with ExitStack() as stack:
            task = asyncio.create_task(launch.launch(room(fleet), request, stack, run=run))
            starting = asyncio.create_task(fleet.starting.wait())
            await asyncio.wait({task, starting}, return_when=asyncio.FIRST_COMPLETED)
            task.cancel()
            await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(go())
    return run


def test_a_job_of_the_queue_whose_start_is_cut_off_is_as_it_was_before(
    room: Any, state: State, tmp_path: Path
) -> None:
    run = interrupted(room, tmp_path, FakeFleet(slow_copy=True), REQUEST)

    assert run.events() == []
    assert run.job_file.exists()
    assert held(state) == []


def test_a_training_of_the_queue_that_may_have_begun_has_an_attempt_behind_it(
    room: Any, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def staged(*_: Any) -> None: ...

    async def rehearsed(_: Any, prepared: Prepared) -> Prepared:
        return prepared

    monkeypatch.setattr("fleetctl.jobs.start._stage", staged)
    monkeypatch.setattr(launch, "rehearse", rehearsed)
    plan = build_plan(TRAINING.train, "true-1", PHONES)
    prepare = launch.prepare

    def prepared(room: Any, request: Request, *rest: Any) -> Prepared:
        return replace(prepare(room, REQUEST, *rest), plan=plan)

    monkeypatch.setattr(launch, "prepare", prepared)
    fleet = FakeFleet()
    fleet.unreachable = {"phone002"}
    run = interrupted(room, tmp_path, fleet, replace(REQUEST, job=TRAINING))

    (attempt,) = past.attempts(run.events())
    assert attempt.verdict is not None
    assert past.can_go_on(attempt.verdict, trains=True)
    assert attempt.verdict.left == {"phone002": "phone002 is away"}
    assert held(state) == list(PHONES)


def test_a_command_of_the_queue_that_may_have_begun_is_not_done_twice(
    room: Any, state: State, tmp_path: Path
) -> None:
    run = interrupted(room, tmp_path, FakeFleet(), REQUEST)

    assert (run.summary().state, run.summary().reason) == (
        "stopped",
        "interrupted during the start",
    )
    assert held(state) == []


def test_a_phone_that_dies_while_the_run_folder_comes_is_suspect(room: Any, state: State) -> None:
    fleet = FakeFleet()
    fleet.lost_in_copy = {"phone002"}

    async def go() -> None:
        with ExitStack() as stack:
            await launch.launch(room(fleet), REQUEST, stack)

    with pytest.raises(StagingError, match="phone002 is gone"):
        asyncio.run(go())
    assert held(state) == []
    now = state.phones()
    assert derive(now["phone002"], 0.0) == "suspect"
    assert now["phone002"].health is not None
    assert now["phone002"].health.message == "phone002 is gone (at the start of run true-1)"
    assert now.get("phone001", StateFacts()).health is None


def test_a_head_phone_that_cannot_start_mpirun_is_suspect(room: Any, state: State) -> None:
    fleet = FakeFleet(Result(1, stderr="mpirun.log: No space left on device"))

    async def go() -> None:
        with ExitStack() as stack:
            await launch.launch(room(fleet), REQUEST, stack)

    with pytest.raises(launch.StartError, match="No space left on device"):
        asyncio.run(go())
    assert held(state) == []
    assert derive(state.phones()["phone001"], 0.0) == "suspect"
    assert state.phones().get("phone002", StateFacts()).health is None
