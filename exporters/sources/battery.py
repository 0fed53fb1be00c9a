"""The battery, as the add-on Termux:API tells it.

`termux-battery-status` prints one JSON object; a key whose value Android does not know is left
out or holds a sentinel (-1, the smallest integer). The call can hang for ever.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from exporters.command import output
from exporters.metrics import (
    BATTERY_CHARGE,
    BATTERY_CURRENT,
    BATTERY_HEALTH,
    BATTERY_PLUGGED,
    BATTERY_POWER,
    BATTERY_STATUS,
    BATTERY_TEMPERATURE,
    BATTERY_VOLTAGE,
    Sample,
)
from exporters.sources import Layout, Source, Unavailable

LIMIT_SECONDS = 5.0
STATUSES = ("CHARGING", "DISCHARGING", "FULL", "NOT_CHARGING", "UNKNOWN")
HEALTHS = (
    "GOOD",
    "OVERHEAT",
    "COLD",
    "DEAD",
    "OVER_VOLTAGE",
    "UNSPECIFIED_FAILURE",
    "UNKNOWN",
)


def source(layout: Layout) -> Source:
    program = str(layout.prefix / "bin/termux-battery-status")

    def read() -> list[Sample]:
        return parse(output([program], limit_seconds=LIMIT_SECONDS))

    return Source("battery", read, every_seconds=15.0, limit_seconds=LIMIT_SECONDS + 2.0)


def parse(text: bytes) -> list[Sample]:
    """Raises Unavailable if nothing usable is in it."""
    try:
        status = json.loads(text)
    except (ValueError, RecursionError):
        raise Unavailable(f"not JSON: {text[:40]!r}") from None
    if not isinstance(status, dict):
        raise Unavailable(f"not a JSON object: {text[:40]!r}")
    samples = [each for each in _samples(status) if each.metric.is_possible(each.value)]
    if not samples:
        raise Unavailable(f"no battery value in {text[:40]!r}")
    return samples


def _samples(status: Mapping[str, Any]) -> Iterator[Sample]:
    temperature = _number(status, "temperature")
    if temperature is not None:
        yield BATTERY_TEMPERATURE.sample(temperature)
    charge = _number(status, "percentage")
    if charge is not None:
        yield BATTERY_CHARGE.sample(charge / 100)
    millivolts = _number(status, "voltage")
    volts = millivolts / 1000 if millivolts is not None else None
    if volts is not None and not BATTERY_VOLTAGE.is_possible(volts):
        volts = None
    if volts is not None:
        yield BATTERY_VOLTAGE.sample(volts)
    amperes = _amperes(status)
    if amperes is not None:
        yield BATTERY_CURRENT.sample(amperes)
        if volts is not None:
            yield BATTERY_POWER.sample(volts * abs(amperes))
    plugged = status.get("plugged")
    if isinstance(plugged, str) and (plugged == "UNPLUGGED" or plugged.startswith("PLUGGED_")):
        yield BATTERY_PLUGGED.sample(plugged != "UNPLUGGED")
    for metric, key, known in (
        (BATTERY_STATUS, "status", STATUSES),
        (BATTERY_HEALTH, "health", HEALTHS),
    ):
        if (actual := status.get(key)) in known:
            for each in known:
                yield metric.sample(each == actual, each.lower())


def _amperes(status: Mapping[str, Any]) -> float | None:
    """The current, from microamperes by Android's definition, from milliamperes on phones of
    vendors that ignore it (Samsung).

    Termux:API mends the latter below 1000; from there to the largest current of a phone the number
    is read as milliamperes, if the battery is at work: it then moves more than 10 mA.
    """
    current = _number(status, "current")
    if current is None or abs(current) >= BATTERY_CURRENT.most * 1_000_000:
        return None
    if 1000 <= abs(current) < BATTERY_CURRENT.most * 1000:
        working = status.get("status") in ("CHARGING", "DISCHARGING")
        return current / 1000 if working else None
    return current / 1_000_000


def _number(status: Mapping[str, Any], key: str) -> float | None:
    value = status.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
