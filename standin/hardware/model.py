"""A rack of phones that warm each other and charge: one step forward in time. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fleetctl.rack import Rack
from standin.hardware import thermal
from standin.hardware.battery import flow
from standin.hardware.state import HardwareState

LONGEST_STEP_SECONDS = 5.0
OFF_WATTS = 0.02
HOT_CELSIUS = 46.0
"""Ambient of a phone with the fault `hot`: even idle its status is severe."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What acts on one phone. `load` is the part used of its processor, None while it is off.

    `slow` is the speed that a fault leaves it; `can_throttle` is false where no speed can be kept.
    """

    load: float | None = 0.0
    slow: float = 1.0
    is_fed: bool = True
    is_hot: bool = False
    can_throttle: bool = True


def neighbours(rack: Rack) -> dict[str, tuple[str, ...]]:
    """Phones in ports next to each other; without switches, next to each other in the rack file."""
    names = list(rack.phones)
    places = {
        name: (phone.switch, phone.port) if phone.switch else (None, index)
        for index, (name, phone) in enumerate(rack.phones.items())
    }
    at = {place: name for name, place in places.items()}

    def beside(name: str) -> tuple[str, ...]:
        switch, port = places[name]
        around = [(switch, (port or 0) - 1), (switch, (port or 0) + 1)]
        return tuple(at[place] for place in around if place in at)

    return {name: beside(name) for name in names}


def speed(state: HardwareState, outside: Outside) -> float:
    """The speed at which a phone may compute, 1.0 being all of its share."""
    throttled = thermal.SPEEDS[state.heat.status] if outside.can_throttle else 1.0
    return throttled * outside.slow


def ambient_celsius(state: HardwareState, outside: Outside) -> float:
    given = state.surroundings.ambient_celsius
    return max(given, HOT_CELSIUS) if outside.is_hot else given


def advance(
    states: Mapping[str, HardwareState],
    outsides: Mapping[str, Outside],
    beside: Mapping[str, Sequence[str]],
    seconds: float,
) -> dict[str, HardwareState]:
    """All phones `seconds` later; long times go in steps over which neighbours stand still."""
    now = dict(states)
    steps = max(1, -(-seconds // LONGEST_STEP_SECONDS)) if seconds > 0 else 0
    for _ in range(int(steps)):
        excess = {
            name: state.heat.body_celsius - ambient_celsius(state, outsides[name])
            for name, state in now.items()
        }
        now = {
            name: _step(
                state,
                outsides[name],
                [excess[other] for other in beside.get(name, ())],
                seconds / steps,
            )
            for name, state in now.items()
        }
    return now


def _step(
    state: HardwareState, outside: Outside, excesses: list[float], seconds: float
) -> HardwareState:
    serial, place = state.identity.serial, state.surroundings
    load = outside.load if outside.load is not None else 0.0
    processor = thermal.processor_watts(load, speed(state, outside), serial)
    rest = OFF_WATTS if outside.load is None else thermal.IDLE_WATTS
    fed = place.charger_watts if outside.is_fed else 0.0
    power = flow(state.battery, state.heat.battery_celsius, processor + rest, fed, seconds)
    heat = thermal.warm(
        state.heat,
        thermal.air_celsius(ambient_celsius(state, outside), place.has_fan, excesses),
        place.has_fan,
        serial,
        processor=processor,
        battery=power.battery_heat_watts,
        rest=rest + power.charger_heat_watts,
        seconds=seconds,
    )
    return replace(state, heat=heat, battery=power.battery, load=load, watts=processor + rest)
