"""Guard over simulated weeks of a rack whose phones run hot, hang, break, and whose hubs lie.

The heat and the batteries are the stand-in's; faults come from a seed. Whatever happens: power and
job of a battery above the hard limit end within a poll and ten seconds from when the phone can be
heard, or, where the hub does not do it, its job ends and a person is called in that time; no outlet
is told another thing more than twice an hour; nothing latched gets power; no job loses its power
without danger.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest
from world import World
from world_parts import HOUR

import standin.hardware.model
from fleetctl.guard.actions import Action, Call, Kill, Switch
from fleetctl.guard.journal import Journal
from fleetctl.guard.replay import read_day, replay
from fleetctl.rack import GuardLimits

LIMITS = GuardLimits(poll_seconds=15, max_charging=3)
SOAK_HOURS = 10_000
SOAK_SEEDS = 200


@pytest.fixture(autouse=True)
def _long_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two polls phones are no warmer for their neighbours: ten times faster."""
    monkeypatch.setattr(standin.hardware.model, "LONGEST_STEP_SECONDS", LIMITS.poll_seconds)


def test_a_bad_night() -> None:
    """Twenty times as many faults as in the long runs."""
    world = World(seed=1, limits=LIMITS, rate=20)
    world.run(hours=4)
    assert world.score == []
    assert {"drain", "kill", "stop", "switch", "call", "note"} <= set(world.seen)


def test_a_quiet_day_keeps_charges_in_their_window() -> None:
    world = World(seed=2, limits=GuardLimits(poll_seconds=15), rate=0)
    world.run(hours=8)
    assert world.score == []
    assert world.calls == 0
    charges = [phone.hardware.battery.charge_percent for phone in world.phones.values()]
    assert all(39 <= charge <= 61 for charge in charges)


def test_a_recorded_night_replays_to_the_same_decisions(tmp_path: Path) -> None:
    """Lying hubs included. The night is recorded coarsely, so seconds may differ."""
    world = World(seed=6, limits=LIMITS, rate=60, calm_seconds=1)
    world.journal = Journal(tmp_path, LIMITS.warn_celsius)
    world.run(hours=0.8)
    world.journal.close()
    (file,) = tmp_path.glob("*.jsonl")
    then = [action for _, action in world.decisions]
    again = [each.action for each in replay(world.layout, read_day(file))]
    for name in world.layout.outlets:
        assert _orders(again, name) == _orders(then, name)
    assert _phones(again) == _phones(then)
    assert {"kill", "latched", "power-not-cut", "silent"} <= {what for what, _ in _phones(then)}


def _orders(actions: list[Action], outlet: str) -> list[bool]:
    """What an outlet was told, repetitions left out."""
    told = [each.on for each in actions if isinstance(each, Switch) and each.outlet == outlet]
    return [on for on, _ in groupby(told)]


def _phones(actions: list[Action]) -> set[tuple[str, str]]:
    """Which phones a job was killed on, and a person was called for."""
    killed = {("kill", each.phone) for each in actions if isinstance(each, Kill)}
    calls = [each for each in actions if isinstance(each, Call)]
    return killed | {(each.what, phone) for each in calls for phone in each.phones}


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_hours(part: int) -> None:
    hours = SOAK_HOURS / SOAK_SEEDS
    seen: dict[str, int] = {}
    for seed in range(part, SOAK_SEEDS, 20):
        world = World(seed, LIMITS, rate=2)
        world.run(hours)
        assert world.score == []
        for kind, times in world.seen.items():
            seen[kind] = seen.get(kind, 0) + times
    print(f"part {part}: {hours * SOAK_SEEDS / 20:.0f} h, {seen}")
    assert seen["kill"] > 10
    assert seen["call"] > 10
    assert world.now - 1e9 >= hours * HOUR
