"""A run that has fewer phones than it wants takes in those that become ready, at a checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from fleetctl.jobs import growth, runs
from fleetctl.jobs.choose import Again
from fleetctl.jobs.room import Room
from fleetctl.jobs.supervise import Watch
from fleetctl.rack import Network, Phone, Rack, Switch
from fleetctl.state import State
from trainer.formats import CheckpointEvent, IterationEvent, StartEvent

RACK = Rack(
    name="r",
    network=Network(IPv4Network("10.0.0.0/24"), "ethernet"),
    phones={f"phone00{n}": Phone(f"phone00{n}", f"10.0.0.{n}") for n in range(1, 5)},
)
AGAIN = Again("digits-1", (), {"phone004": "it hung"})


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "state.db") as state:
        yield state


@pytest.fixture
def watch(tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch) -> Watch:
    async def passing(_: Room, phones: Any, __: Any) -> list[str]:
        return list(phones)

    monkeypatch.setattr(growth, "_passing", passing)
    monkeypatch.setattr(growth, "LOOK_SECONDS", 0.01)
    state.allocate("digits-1", ["phone001", "phone002"])
    fleet: Any = None
    run = runs.create(tmp_path / "runs", "digits")
    watch = Watch(fleet, state, run, ("phone001", "phone002"), {})
    watch.tracker.take(StartEvent(0.0, 0, 1000))
    for number in (1, 2):
        watch.tracker.take(IterationEvent(float(number), number, 0, 0.1, 48, 48.0, 1.0, 0.1, 0.1))
    return watch


def grown(
    watch: Watch, state: State, want: int, *events: Any, rack: Rack = RACK, again: Again = AGAIN
) -> str | None:
    """Why the attempt was ended, if it was, after a while in which these events came."""
    paths: Any = None
    fleet: Any = None
    room = Room(fleet, rack, state, paths, lambda _: None)

    async def go() -> None:
        growing = asyncio.create_task(growth.grow(room, watch, want, again))
        await asyncio.sleep(0.05)
        for event in events:
            assert watch.regroup_reason is None
            watch.tracker.take(event)
        await asyncio.wait([growing], timeout=0.5)
        growing.cancel()

    asyncio.run(go())
    return watch.regroup_reason


CHECKPOINT = CheckpointEvent(3.0, 20, "checkpoints/iteration-20.ckpt")


def test_it_waits_for_the_checkpoint_and_takes_who_is_ready(watch: Watch, state: State) -> None:
    state.record_health("phone003", "OK")
    state.record_health("phone004", "OK")
    assert grown(watch, state, 4, CHECKPOINT) == ("phone003: 1 more phone is ready and taken in")
    assert watch.trouble.is_set()


def test_a_phone_of_the_same_switch_is_taken_before_others(watch: Watch, state: State) -> None:
    switches = {"phone003": "sw1", "phone001": "sw2", "phone002": "sw2", "phone004": "sw2"}
    phones = {n: replace(RACK.phones[n], switch=switch) for n, switch in switches.items()}
    rack = replace(RACK, phones=phones, switches={n: Switch(n) for n in ("sw1", "sw2")})
    state.record_health("phone003", "OK")
    state.record_health("phone004", "OK")
    again = Again("digits-1", ())
    found = grown(watch, state, 3, CHECKPOINT, rack=rack, again=again)
    assert found == "phone004: 1 more phone is ready and taken in"


def test_without_a_checkpoint_nothing_is_given_up(watch: Watch, state: State) -> None:
    state.record_health("phone003", "OK")
    assert grown(watch, state, 4) is None


def test_a_suspect_phone_does_not_join(watch: Watch, state: State) -> None:
    state.record_health("phone003", "CRITICAL", "it hung")
    assert grown(watch, state, 4, CHECKPOINT) is None


def test_a_run_that_has_enough_or_is_nearly_done_stays_as_it_is(watch: Watch, state: State) -> None:
    state.record_health("phone003", "OK")
    assert grown(watch, state, 2, CHECKPOINT) is None
    last = IterationEvent(4.0, 990, 0, 0.1, 48, 48.0, 1.0, 0.1, 0.1)
    assert grown(watch, state, 4, last, CHECKPOINT) is None
