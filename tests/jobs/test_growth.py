"""A run that has fewer phones than it wants takes in those that become ready, at a checkpoint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from fleetctl.checks.phone import PhoneFacts
from fleetctl.jobs import growth, runs
from fleetctl.jobs.room import Room
from fleetctl.jobs.supervise import Watch
from fleetctl.rack import Network, Phone, Rack, Switch
from fleetctl.state import State, derive
from trainer.formats import CheckpointEvent, IterationEvent, StartEvent

RACK = Rack(
    name="r",
    network=Network(IPv4Network("10.0.0.0/24"), "ethernet"),
    phones={f"phone00{n}": Phone(f"phone00{n}", f"10.0.0.{n}") for n in range(1, 5)},
)
GIB = 1 << 30
CHECKPOINT = CheckpointEvent(3.0, 20, "checkpoints/iteration-20.ckpt")


def good(phone: str) -> PhoneFacts:
    """What a phone with nothing wrong tells."""
    return PhoneFacts(
        phone,
        RACK.phones[phone].address,
        python="3.14.1",
        openmpi="5.0.11",
        release="1.0",
        common_release="1.0",
        common_openmpi="5.0.11",
        free_disk_bytes=9 * GIB,
        free_temporary_bytes=GIB,
        free_memory_bytes=2 * GIB,
        interfaces={RACK.phones[phone].address: "eth0"},
        revocations=0,
    )


class Growing:
    """A run on the first two phones of the rack. `told`: what the others answer to preflight; who
    is not in it does not answer. `looks`: who was asked, one look after the other; `after_look`:
    what happens next, by their number."""

    def __init__(self, folder: Path, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state, self.rack = state, RACK
        self.told = {phone: good(phone) for phone in ("phone003", "phone004")}
        self.looks: list[set[str]] = []
        self.after_look: dict[int, list[Callable[[], None]]] = {}
        monkeypatch.setattr(growth.preflight, "gather", self.gather)
        monkeypatch.setattr(growth, "LOOK_SECONDS", 0.01)
        state.allocate("digits-1", ["phone001", "phone002"])
        fleet: Any = None
        run = runs.create(folder, "digits")
        run.versions_file.write_text('{"release": {"1.0": "phone[001-002]"}, "openmpi": {}}')
        self.watch = Watch(fleet, state, run, ("phone001", "phone002"), {})
        self.watch.tracker.take(StartEvent(0.0, 0, 1000))
        for number in (1, 2):
            self.watch.tracker.take(iteration(number))

    async def gather(self, _: Any, __: Any, names: Any, **___: Any) -> dict[str, PhoneFacts]:
        self.looks.append({*names})
        silent = PhoneFacts("", "", reached=False, answered=False, problem="no answer")
        found = {name: self.told.get(name, replace(silent, name=name)) for name in names}
        for then in self.after_look.get(len(self.looks), ()):
            asyncio.get_running_loop().call_soon(then)
        return found

    def checkpoint(self, iteration: int = 20) -> None:
        self.watch.tracker.take(replace(CHECKPOINT, iteration=iteration))

    def grow(self, want: int, *, pool: tuple[str, ...] = (), may: Any = lambda _: True) -> Any:
        """Why the attempt was ended, if it was within some looks."""
        paths: Any = None
        room = Room(self.watch.fleet, self.rack, self.state, paths, lambda _: None)

        async def go() -> None:
            growing = asyncio.create_task(growth.grow(room, self.watch, want, pool, may))
            enough = len(self.looks) + 5
            for _ in range(100):
                if growing.done() or len(self.looks) > enough:
                    break
                await asyncio.sleep(0.02)
            growing.cancel()
            await asyncio.gather(growing, return_exceptions=True)

        asyncio.run(go())
        return self.watch.regroup_reason


def iteration(number: int) -> IterationEvent:
    return IterationEvent(float(number), number, 0, 0.1, 48, 48.0, 1.0, 0.1, 0.1)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "state.db") as state:
        yield state


@pytest.fixture
def growing(tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch) -> Growing:
    return Growing(tmp_path / "runs", state, monkeypatch)


def test_it_waits_for_the_checkpoint_and_takes_who_is_ready(growing: Growing) -> None:
    del growing.told["phone004"]
    growing.checkpoint()
    assert growing.grow(4) is None, "that one was before, and nothing is given up"
    growing.after_look[len(growing.looks) + 2] = [lambda: growing.checkpoint(40)]
    assert growing.grow(4) == "phone003: 1 more phone is ready and taken in"
    assert growing.watch.trouble.is_set()


def test_a_phone_that_failed_comes_back_when_preflight_finds_it_good(
    growing: Growing, state: State
) -> None:
    state.record_contact({"phone003": False, "phone004": False})
    state.record_health("phone003", "CRITICAL", "it hung (in run digits-1)")
    growing.told["phone004"] = replace(good("phone004"), free_disk_bytes=0)
    growing.after_look[2] = [growing.checkpoint]
    assert growing.grow(4) == "phone003: 1 more phone is ready and taken in"
    now = {phone: derive(facts, time.time()) for phone, facts in state.phones().items()}
    assert (now["phone003"], now["phone004"]) == ("ready", "suspect")


def test_phones_that_come_back_one_after_the_other_are_taken_in_together(
    growing: Growing,
) -> None:
    late = growing.told.pop("phone004")
    growing.after_look[1] = [lambda: growing.told.update({"phone004": late}), growing.checkpoint]
    growing.after_look[3] = [lambda: growing.checkpoint(40)]
    assert growing.grow(5) == "phone[003-004]: 2 more phones are ready and taken in"


def test_a_phone_of_the_same_switch_is_taken_before_others(growing: Growing) -> None:
    switches = {"phone003": "sw1", "phone001": "sw2", "phone002": "sw2", "phone004": "sw2"}
    phones = {n: replace(RACK.phones[n], switch=switch) for n, switch in switches.items()}
    growing.rack = replace(RACK, phones=phones, switches={n: Switch(n) for n in ("sw1", "sw2")})
    growing.after_look[1] = growing.after_look[2] = [growing.checkpoint]
    assert growing.grow(3) == "phone004: 1 more phone is ready and taken in"


def test_who_is_gone_when_the_checkpoint_comes_ends_no_attempt(growing: Growing) -> None:
    growing.after_look[1] = [growing.told.clear, growing.checkpoint]
    assert growing.grow(4) is None
    assert len(growing.looks) > 2, "and it goes on looking"


def test_a_phone_with_another_release_than_the_run_is_no_help(growing: Growing) -> None:
    for phone in growing.told:
        growing.told[phone] = replace(good(phone), release="0.9", common_release="0.9")
    growing.after_look[1] = growing.after_look[2] = [growing.checkpoint]
    assert growing.grow(4) is None
    assert len(growing.looks) > 2


def test_a_run_asks_only_who_may_join_it(growing: Growing, state: State) -> None:
    state.allocate("digits-1", ["phone003"])
    state.drain(["phone004"], "me", "its screen")
    assert growing.grow(4) is None
    assert growing.looks == [], "a spare is held already, and one that is drained is not ours"
    state.undrain(["phone004"])
    assert growing.grow(4, pool=("phone001", "phone003")) is None
    assert growing.looks == []


def test_phones_that_others_wait_for_are_left_to_them(growing: Growing) -> None:
    growing.after_look[1] = growing.after_look[2] = [growing.checkpoint]
    assert growing.grow(4, may=lambda phones: "phone004" not in phones) is None
    growing.after_look[len(growing.looks) + 1] = [lambda: growing.checkpoint(40)]
    assert growing.grow(3, may=lambda phones: "phone004" not in phones) is not None


def test_a_run_that_has_enough_or_is_nearly_done_stays_as_it_is(growing: Growing) -> None:
    assert growing.grow(2) is None
    growing.watch.tracker.take(iteration(990))
    assert growing.grow(4) is None
    assert growing.looks == []
