"""Hours of training in the heat: shares that follow it, on the stand-in's thermal model.

No processor computes here: a phone takes its cold time divided by its speed, its load warms it, and
what its exporter tells of that comes every 15 s, as on a rack.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

import pytest

from fleetctl.guard.fans import OFF_BELOW_WARN_CELSIUS, ON_BELOW_WARN_CELSIUS
from fleetctl.rack import GuardLimits
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
WARN_CELSIUS = GuardLimits().warn_celsius


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


def blown(state: HardwareState, celsius: float) -> HardwareState:
    """With its fan as guard would have it, by what the phone has told."""
    runs = state.surroundings.has_fan
    below = OFF_BELOW_WARN_CELSIUS if runs else ON_BELOW_WARN_CELSIUS
    place = replace(state.surroundings, has_fan=celsius >= WARN_CELSIUS - below)
    return replace(state, surroundings=place)


def train(
    broken_fans: set[str], *, follows: bool, fans_follow: bool = False, ambient: float = 25.0
) -> list[Iteration]:
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
            if fans_follow:
                phones = {name: blown(state, told[name][0]) for name, state in phones.items()}
        if now > HOURS * 1800:
            warmest = max(state.heat.battery_celsius for state in phones.values())
            done.append(Iteration(whole, warmest))
    return done


def growth(iterations: list[Iteration]) -> float:
    """How much longer than a cold one an iteration takes in the mean: 0.15 is 15 %."""
    mean = fmean(each.seconds for each in iterations) / COLD_SECONDS - 1
    worst = max(each.seconds for each in iterations) / COLD_SECONDS - 1
    warmest = max(each.warmest_celsius for each in iterations)
    print(f"mean {mean:+.1%}, longest {worst:+.1%}, warmest battery {warmest:.1f} °C")
    return mean


@pytest.mark.parametrize(("ambient", "without"), [(25.0, 0.14), (28.0, 0.3)])
def test_where_a_fan_has_failed_iterations_stay_within_5_percent_of_the_cold_ones(
    ambient: float, without: float
) -> None:
    broken = {PHONES[2]}
    assert growth(train(broken, follows=False, ambient=ambient)) > without
    assert growth(train(broken, follows=True, ambient=ambient)) < 0.05


@pytest.mark.parametrize("ambient", [25.0, 28.0])
def test_fans_that_follow_the_heat_keep_all_iterations_as_short_as_the_cold_ones(
    ambient: float,
) -> None:
    none = set(PHONES)
    assert growth(train(none, follows=True, ambient=ambient)) > 0.14, "nobody can take over"
    followed = train(none, follows=False, fans_follow=True, ambient=ambient)
    assert growth(followed) < 0.05


def test_in_summer_without_fans_shares_keep_batteries_below_the_limit() -> None:
    """What that costs is more than what the heat alone would cost."""
    none = set(PHONES)
    without = train(none, follows=False, ambient=32.0)
    followed = train(none, follows=True, ambient=32.0)
    assert growth(followed) > growth(without)
    assert max(each.warmest_celsius for each in without) > LIMIT_CELSIUS + 1
    assert max(each.warmest_celsius for each in followed) < LIMIT_CELSIUS + 1


def test_with_all_fans_nothing_grows_and_nothing_is_changed() -> None:
    assert growth(train(set(), follows=True)) == pytest.approx(0)
