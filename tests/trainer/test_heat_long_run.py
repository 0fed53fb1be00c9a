"""Hours of training in the heat: shares that follow it, on the stand-in's thermal model.

No processor computes here: a phone takes its cold time divided by its speed, its load warms it, and
what its exporter tells of that comes every 15 s, as on a rack.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

import pytest

from standin.hardware.model import Outside, advance, speed
from standin.hardware.state import HardwareState
from trainer.members import Members, Reading

PHONES = tuple(f"phone{number:03}" for number in range(1, 7))
BESIDE = {name: PHONES[max(0, i - 1) : i] + PHONES[i + 1 : i + 2] for i, name in enumerate(PHONES)}
SAMPLES, COLD_SECONDS, HOURS = 64, 4.0, 3.0
TOLD_EVERY_SECONDS = 15.0
WAITING_LOAD = 0.15
"""What a rank uses of its processor while it waits for others."""

LIMIT_CELSIUS = 43.0


@dataclass(frozen=True)
class Iteration:
    seconds: float
    warmest_celsius: float


def placed(name: str, ambient: float, has_fan: bool) -> HardwareState:
    """A phone as warm as its air."""
    state = HardwareState.plausible(f"heat/{name}", "SM-G975F", 31)
    heat = replace(
        state.heat, processor_celsius=ambient, body_celsius=ambient, battery_celsius=ambient
    )
    place = replace(state.surroundings, ambient_celsius=ambient, has_fan=has_fan)
    return replace(state, surroundings=place, heat=heat)


def train(broken_fans: set[str], *, follows: bool, ambient: float = 25.0) -> list[Iteration]:
    """The iterations of the second half of so many hours."""
    phones = {name: placed(name, ambient, name not in broken_fans) for name in PHONES}
    members = Members((SAMPLES,) * len(PHONES), 1, LIMIT_CELSIUS)
    taken = [0.0] * len(PHONES)
    told = {name: (phones[name].heat.battery_celsius, False) for name in PHONES}
    now = next_told = 0.0
    done = []
    while now < HOURS * 3600:
        if follows:
            readings = zip(taken, told.values(), strict=True)
            members.take([Reading(seconds, *heat) for seconds, heat in readings])
        speeds = [speed(phones[name], Outside()) for name in PHONES]
        taken = [
            share / SAMPLES * COLD_SECONDS / may
            for share, may in zip(members.shares, speeds, strict=True)
        ]
        whole = max(taken)
        outsides = {
            name: Outside(load=may * max(WAITING_LOAD, seconds / whole))
            for name, may, seconds in zip(PHONES, speeds, taken, strict=True)
        }
        phones = advance(phones, outsides, BESIDE, whole)
        now += whole
        if now >= next_told:
            next_told = now + TOLD_EVERY_SECONDS
            told = {
                name: (round(state.heat.battery_celsius, 1), state.heat.status > 0)
                for name, state in phones.items()
            }
        if now > HOURS * 1800:
            warmest = max(state.heat.battery_celsius for state in phones.values())
            done.append(Iteration(whole, warmest))
    return done


def growth(iterations: list[Iteration]) -> float:
    return fmean(each.seconds for each in iterations) / COLD_SECONDS - 1


@pytest.mark.parametrize(("ambient", "without"), [(25.0, 0.14), (28.0, 0.3)])
def test_where_a_fan_has_failed_iterations_stay_within_5_percent_of_the_cold_ones(
    ambient: float, without: float
) -> None:
    broken = {PHONES[2]}
    assert growth(train(broken, follows=False, ambient=ambient)) > without
    assert growth(train(broken, follows=True, ambient=ambient)) < 0.05


def test_with_all_fans_nothing_grows_and_nothing_is_changed() -> None:
    assert growth(train(set(), follows=True)) == pytest.approx(0)
