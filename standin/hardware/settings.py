"""What a person may set of a phone's hardware: `ambient=35 fan=off`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fleetctl.rack import InputError
from standin.hardware.state import Defect, HardwareState

type Change = Callable[[HardwareState], HardwareState]


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing to set: what its values mean, and how a value's text becomes a change of a state.

    `change` raises ValueError for a value that is not allowed.
    """

    meaning: str
    change: Callable[[str], Change]


def parse_setting(text: str) -> Change:
    """`ambient=35` as a change of a phone's state. Raises InputError with all that there is."""
    name, equals, value = text.partition("=")
    if not equals or name not in SETTINGS:
        known = "\n".join(f"  {each:12} {SETTINGS[each].meaning}" for each in SETTINGS)
        raise InputError(f"`{text}` sets nothing; there are:\n{known}")
    try:
        return SETTINGS[name].change(value)
    except ValueError:
        raise InputError(f"`{text}`: {name} is {SETTINGS[name].meaning}") from None


def _number(text: str, low: float, high: float) -> float:
    value = float(text)
    if not low <= value <= high:
        raise ValueError
    return value


def _word(text: str, words: dict[str, Any]) -> Any:
    if text not in words:
        raise ValueError
    return words[text]


def _surroundings(**values: Any) -> Change:
    return lambda state: replace(state, surroundings=replace(state.surroundings, **values))


def _battery(**values: Any) -> Change:
    return lambda state: replace(state, battery=replace(state.battery, **values))


def _charger(text: str) -> Change:
    words = {"on": 10.0, "off": 0.0}
    watts = words[text] if text in words else _number(text, 0, 60)
    return _surroundings(charger_watts=watts)


def _outlet(text: str) -> Change:
    if not re.fullmatch(r"[\w.:-]{1,64}", text):
        raise ValueError
    return _surroundings(outlet=text)


def _temperature(text: str) -> Change:
    celsius = _number(text, -20, 90)
    return lambda state: replace(
        state,
        heat=replace(
            state.heat, processor_celsius=celsius, body_celsius=celsius, battery_celsius=celsius
        ),
    )


def _health(text: str) -> Change:
    defects: dict[str, Defect] = {
        "good": "none",
        "dead": "dead",
        "over-voltage": "over-voltage",
        "failure": "failure",
    }
    if text in defects:
        return _battery(defect=defects[text])
    return _battery(health_percent=_number(text, 1, 100))


def _tells_heat(ready: bool) -> Change:
    return lambda state: replace(state, tells_heat=ready)


def _current(text: str) -> Change:
    ways: dict[str, dict[str, Any]] = {
        "positive": {"current_sign": 1},
        "negative": {"current_sign": -1},
        "microamperes": {"current_unit": "microamperes"},
        "milliamperes": {"current_unit": "milliamperes"},
    }
    return _battery(**_word(text, ways))


SETTINGS = {
    "ambient": Setting(
        "the air's temperature in °C, -20 to 70",
        lambda text: _surroundings(ambient_celsius=_number(text, -20, 70)),
    ),
    "fan": Setting(
        "on or off",
        lambda text: _surroundings(has_fan=_word(text, {"on": True, "off": False})),
    ),
    "charger": Setting("on, off, or its greatest power in watts, 0 to 60", _charger),
    "outlet": Setting("the name of the hub's outlet that feeds it", _outlet),
    "temperature": Setting("of the whole phone now, in °C, -20 to 90", _temperature),
    "charge": Setting(
        "of the battery now, in percent, 0 to 100",
        lambda text: _battery(charge_percent=_number(text, 0, 100)),
    ),
    "limit": Setting(
        "the charge at which charging stops, in percent, 50 to 100",
        lambda text: _battery(charge_limit_percent=_number(text, 50, 100)),
    ),
    "health": Setting(
        "what is left of the battery's capacity in percent, 1 to 100; or good, dead, over-voltage, "
        "failure",
        _health,
    ),
    "cycles": Setting(
        "charge cycles of the battery, 0 to 5000",
        lambda text: _battery(cycles=_number(text, 0, 5000)),
    ),
    "thermal-hal": Setting(
        "whether Android's thermal service has the hardware's word: ready or missing",
        lambda text: _tells_heat(_word(text, {"ready": True, "missing": False})),
    ),
    "current": Setting(
        "how the phone tells its current: positive or negative while charging; microamperes or "
        "milliamperes",
        _current,
    ),
}
