"""Stand-in hardware in model time: heat, throttling, battery. No container, no waiting."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.sources import Unavailable
from exporters.sources.thermal import parse
from fleetctl.rack import load_rack
from standin.enrolment import derived_serial
from standin.hardware import HardwareState, render
from standin.hardware.battery import open_volts
from standin.hardware.model import Outside, advance, neighbours, speed
from standin.hardware.settings import parse_setting
from standin.hardware.state import CHARGE_LIMIT_PERCENT, Battery
from standin.hardware.thermal import (
    FULL_WATTS,
    IDLE_WATTS,
    RELIEF_KELVIN,
    SHUTDOWN,
    SPEEDS,
    STATUS_CELSIUS,
    STILL_KELVIN_PER_WATT,
    STILL_NEIGHBOUR,
    status,
)

PROJECT = Path(__file__).resolve().parents[2]
MINUTE = 60.0
NORMAL = Outside()

serials = st.text("0123456789ABCDEF", min_size=11, max_size=11)
loads = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def make(serial: str = "R58M0000001", **surroundings: Any) -> HardwareState:
    state = HardwareState.plausible(serial, "SM-G975F", 31)
    return replace(state, surroundings=replace(state.surroundings, **surroundings))


def row(count: int, **surroundings: Any) -> dict[str, HardwareState]:
    """Phones side by side, each with its own serial."""
    return {
        str(place): make(derived_serial("row", str(place)), **surroundings)
        for place in range(count)
    }


def train(
    states: dict[str, HardwareState], minutes: float, outside: Outside = NORMAL
) -> tuple[dict[str, HardwareState], dict[str, float]]:
    """All phones compute as fast as they may; and how much longer an iteration took than a cool
    phone's, on the average over the second half of the time."""
    names = list(states)
    beside = {
        name: [names[other] for other in (place - 1, place + 1) if 0 <= other < len(names)]
        for place, name in enumerate(names)
    }
    steps, computed = round(minutes * MINUTE / 5), dict.fromkeys(names, 0.0)
    for step in range(steps):
        may = {name: speed(state, outside) for name, state in states.items()}
        outsides = {name: replace(outside, load=may[name]) for name in names}
        states = advance(states, outsides, beside, 5.0)
        if step >= steps // 2:
            computed = {name: computed[name] + may[name] for name in names}
    return states, {name: (steps - steps // 2) / done for name, done in computed.items()}


def alone(
    state: HardwareState, series: Sequence[float | None], seconds: float = 30.0, **outside: Any
) -> HardwareState:
    """One phone under a series of loads, each for some seconds."""
    for load in series:
        (state,) = advance(
            {"it": state}, {"it": Outside(load=load, **outside)}, {}, seconds
        ).values()
    return state


# --- what was measured on real phones


@pytest.mark.parametrize(("count", "ambient"), [(1, 25.0), (6, 22.0), (6, 25.0), (6, 28.0)])
def test_without_fans_an_iteration_grows_by_15_to_36_percent(count: int, ambient: float) -> None:
    states, slowdown = train(row(count, has_fan=False, ambient_celsius=ambient), 60)
    assert all(1.145 <= factor <= 1.365 for factor in slowdown.values()), slowdown
    assert all(state.heat.body_celsius <= STATUS_CELSIUS[2] for state in states.values())


@pytest.mark.parametrize("ambient", [22.0, 28.0])
def test_with_fans_it_does_not_grow(ambient: float) -> None:
    states, slowdown = train(row(6, has_fan=True, ambient_celsius=ambient), 60)
    assert set(slowdown.values()) == {1.0}
    assert all(state.heat.status == 0 for state in states.values())


def test_a_phone_between_others_is_warmer_than_one_at_the_end() -> None:
    for has_fan in (False, True):
        twins = dict.fromkeys("123", make(has_fan=has_fan))
        states, slowdown = train(twins, 60)
        assert states["2"].heat.body_celsius > states["1"].heat.body_celsius
        assert states["2"].heat.body_celsius > states["3"].heat.body_celsius
        assert (slowdown["2"] > slowdown["1"]) == (not has_fan)


def test_a_hot_phone_throttles_whatever_its_fan_does_and_cools_down_again() -> None:
    hot, _ = train(row(1), 60, Outside(is_hot=True))
    assert hot["0"].heat.status >= 3
    healed, _ = train(hot, 60)
    assert healed["0"].heat.status == 0


# --- the same again


@given(serials, loads)
def test_the_same_loads_give_the_same_states(serial: str, series: list[float]) -> None:
    assert alone(make(serial), series) == alone(make(serial), series)


@given(loads, st.integers(0, 29))
def test_a_state_that_was_put_down_goes_on_as_if_it_had_not(series: list[float], cut: int) -> None:
    kept = HardwareState.from_json(alone(make(), series[:cut]).to_json())
    there, back = alone(make(), series), alone(kept, series[cut:])
    assert back.heat.body_celsius == pytest.approx(there.heat.body_celsius, abs=1e-3)
    assert back.battery.charge_percent == pytest.approx(there.battery.charge_percent, abs=1e-3)


@given(st.integers(1, 40), st.floats(0, 1))
def test_it_is_the_same_in_one_long_step_and_in_many(count: int, load: float) -> None:
    many = alone(make(), [load] * count, 5.0)
    (once,) = advance({"it": make()}, {"it": Outside(load=load)}, {}, 5.0 * count).values()
    assert once.heat.body_celsius == pytest.approx(many.heat.body_celsius, abs=1e-6)


# --- bounds and order, whatever happens

outsides = st.builds(
    Outside,
    load=st.none() | st.floats(0, 1),
    slow=st.floats(0.01, 1),
    is_fed=st.booleans(),
    is_hot=st.booleans(),
    can_throttle=st.booleans(),
)
places = st.fixed_dictionaries(
    {
        "ambient_celsius": st.floats(-10, 50),
        "has_fan": st.booleans(),
        "charger_watts": st.floats(0, 25),
    }
)


@given(st.lists(st.tuples(places, outsides), min_size=1, max_size=4), st.floats(0.1, 4000))
def test_temperatures_and_charge_stay_within_what_physics_allows(
    phones: list[tuple[dict[str, Any], Outside]], seconds: float
) -> None:
    states = {str(n): make(str(n), **place) for n, (place, _) in enumerate(phones)}
    outside = {str(n): each for n, (_, each) in enumerate(phones)}
    beside = {
        name: [other for other in states if abs(int(other) - int(name)) == 1] for name in states
    }
    ambients = [
        max(place["ambient_celsius"], 46.0) if each.is_hot else place["ambient_celsius"]
        for place, each in phones
    ]
    start = make().heat.body_celsius + 1
    # Charger and battery lose less than 2.5 W; at first a neighbour is 37 K warmer than its air.
    own = (1.05 * FULL_WATTS + IDLE_WATTS + 2.5) * 1.05 * STILL_KELVIN_PER_WATT
    highest = max([*ambients, start]) + max(own, 37.0) / (1 - 2 * STILL_NEIGHBOUR)
    for state in advance(states, outside, beside, seconds).values():
        assert min([*ambients, 25.0]) - 1e-6 <= state.heat.body_celsius <= highest
        assert state.heat.processor_celsius >= min([*ambients, 25.0]) - 1e-6
        assert 0 <= state.battery.charge_percent <= 100
        assert 0 <= state.heat.status <= SHUTDOWN
        assert 0 <= state.watts <= FULL_WATTS * 1.1 + IDLE_WATTS
        assert state.battery.cycles >= make(state.identity.serial).battery.cycles
        assert 2.5 < open_volts(state.battery.charge_percent) < 4.5


warmer: list[Callable[[float], dict[str, Any]]] = [
    lambda more: {"ambient_celsius": 20 + more},
    lambda more: {"has_fan": more < 5},
]


@pytest.mark.parametrize("place", warmer)
@given(loads, st.floats(0, 4), st.floats(6, 12))
def test_warmer_air_and_no_fan_never_make_a_phone_cooler(
    place: Callable[[float], dict[str, Any]], series: list[float], low: float, high: float
) -> None:
    cool, warm = alone(make(**place(low)), series), alone(make(**place(high)), series)
    # Below the first threshold nothing throttles; above it a warmer phone may work less.
    if warm.heat.body_celsius < STATUS_CELSIUS[0]:
        assert warm.heat.body_celsius >= cool.heat.body_celsius - 1e-9


@given(loads, st.floats(0, 1))
def test_more_work_never_makes_a_phone_cooler_or_fuller(series: list[float], more: float) -> None:
    harder = [min(1.0, load + more) for load in series]
    idle, busy = (alone(make(), each, can_throttle=False) for each in (series, harder))
    assert busy.heat.body_celsius >= idle.heat.body_celsius - 1e-9
    assert busy.battery.charge_percent <= idle.battery.charge_percent + 1e-9


@given(st.floats(0, 80), st.integers(0, SHUTDOWN))
def test_a_status_begins_at_its_limit_and_ends_below_it(skin: float, present: int) -> None:
    now = status(skin, present)
    assert status(skin, now) == now
    if now > present:
        assert skin >= STATUS_CELSIUS[now - 1]
    if now < present:
        assert skin < STATUS_CELSIUS[present - 1] - RELIEF_KELVIN
    assert SPEEDS[now] == min(SPEEDS[: now + 1])


# --- battery


def hours(
    state: HardwareState, count: float, load: float | None = 0.0, **outside: Any
) -> HardwareState:
    return alone(state, [load] * round(count * 60), 60.0, **outside)


def with_battery(state: HardwareState, **values: Any) -> HardwareState:
    return replace(state, battery=replace(state.battery, **values))


def test_it_charges_to_its_limit_and_stays_there() -> None:
    full = hours(with_battery(make(), charge_percent=20.0), 4)
    assert full.battery.charge_percent == CHARGE_LIMIT_PERCENT
    assert (full.battery.status, full.battery.current_amperes) == ("NOT_CHARGING", 0.0)
    unlimited = hours(with_battery(make(), charge_percent=80.0, charge_limit_percent=100.0), 6)
    assert unlimited.battery.status == "FULL"


def test_without_power_it_runs_down_and_with_a_weak_charger_too() -> None:
    cut = hours(make(), 1, load=1.0, is_fed=False)
    assert not cut.battery.is_plugged
    assert cut.battery.status == "DISCHARGING"
    assert cut.battery.current_amperes < 0
    assert cut.battery.charge_percent < make().battery.charge_percent
    weak = hours(make(charger_watts=2.5), 1, load=1.0)
    assert weak.battery.is_plugged
    assert weak.battery.current_amperes < 0
    empty = hours(make(), 30, load=1.0, is_fed=False)
    assert empty.battery.charge_percent == 0


def test_charging_waits_while_the_battery_is_hot_or_freezing() -> None:
    low = with_battery(make(ambient_celsius=50.0), charge_percent=30.0)
    assert hours(low, 1).battery.current_amperes == 0
    frozen = with_battery(make(ambient_celsius=-10.0), charge_percent=30.0)
    assert hours(frozen, 1, load=None).battery.current_amperes == 0


def test_charging_warms_wears_and_counts_as_cycles() -> None:
    low = with_battery(make(), charge_percent=20.0)
    charging, resting = hours(low, 0.5), hours(with_battery(make(), charge_percent=85.0), 0.5)
    assert charging.heat.battery_celsius > resting.heat.battery_celsius
    assert charging.battery.cycles > low.battery.cycles
    assert charging.battery.health_percent < low.battery.health_percent


def test_a_worn_battery_holds_less() -> None:
    fresh, worn = (
        hours(with_battery(make(), health_percent=health), 2, load=1.0, is_fed=False)
        for health in (100.0, 50.0)
    )
    assert worn.battery.charge_percent < fresh.battery.charge_percent


@given(serials)
def test_a_new_phone_is_cool_and_within_its_charge_window(serial: str) -> None:
    state = make(serial)
    assert 60 <= state.battery.charge_percent <= CHARGE_LIMIT_PERCENT
    assert 20 < state.heat.battery_celsius < 30


# --- what the phone's tools say


@given(serials, loads)
def test_all_tools_of_a_phone_tell_of_the_same_battery(serial: str, series: list[float]) -> None:
    files = render(alone(make(serial), series))
    said = json.loads(files["battery_status.json"])
    assert f"level: {said['percentage']}\n" in files["dumpsys_battery.txt"]
    assert f"voltage: {said['voltage']}\n" in files["dumpsys_battery.txt"]
    assert f"temperature: {round(said['temperature'] * 10)}\n" in files["dumpsys_battery.txt"]
    assert f"mValue={said['temperature']:.1f}, mType=2" in files["dumpsys_thermalservice.txt"]


def test_the_thermal_service_tells_the_heat_of_now_where_the_hardware_is_ready() -> None:
    state = make()
    heat = parse(render(state)["dumpsys_thermalservice.txt"])
    told = {sensor.name: sensor.celsius for sensor in heat.sensors}
    assert told == pytest.approx(
        {
            "AP": state.heat.processor_celsius,
            "BAT": state.heat.battery_celsius,
            "SKIN": state.heat.body_celsius,
        },
        abs=0.06,
    )
    missing = parse_setting("thermal-hal=missing")(state)
    with pytest.raises(Unavailable, match="not ready"):
        parse(render(missing)["dumpsys_thermalservice.txt"])


@pytest.mark.parametrize(
    ("values", "current"),
    [
        ({}, 1_500_000),
        ({"current_sign": -1}, -1_500_000),
        ({"current_unit": "milliamperes"}, 1500),
    ],
)
def test_vendors_tell_the_current_in_their_own_way(values: dict[str, Any], current: int) -> None:
    state = with_battery(make(), current_amperes=1.5, **values)
    assert json.loads(render(state)["battery_status.json"])["current"] == current


def test_a_defect_shows_in_the_health_whatever_the_temperature() -> None:
    state = with_battery(make(), defect="over-voltage")
    assert json.loads(render(state)["battery_status.json"])["health"] == "OVER_VOLTAGE"
    hot = hours(make(ambient_celsius=50.0), 1)
    assert json.loads(render(hot)["battery_status.json"])["health"] == "OVERHEAT"


def test_only_new_androids_tell_an_app_the_cycles() -> None:
    for level, told in [(31, False), (34, True)]:
        state = HardwareState.plausible("R58M0000001", "SM-G975F", level)
        assert ("cycle" in json.loads(render(state)["battery_status.json"])) == told


def test_a_state_of_another_version_is_refused() -> None:
    for text in ('{"version": 1}', "[]"):
        with pytest.raises(ValueError, match="not of version"):
            HardwareState.from_json(text)


def test_neighbours_hang_in_ports_next_to_each_other() -> None:
    beside = neighbours(load_rack(PROJECT / "inventory/standin.yml"))
    assert beside["phone002"] == ("phone001", "phone003")
    assert beside["phone001"] == ("phone002",)
    assert beside["phone004"] == ("phone005",)  # the first of the second switch


def test_phones_differ() -> None:
    batteries: set[Battery] = {state.battery for state in row(6).values()}
    assert len(batteries) == 6
