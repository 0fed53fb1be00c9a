"""The battery, as the add-on Termux:API tells it, or else Android.

`termux-battery-status` prints one JSON object; a key whose value Android does not know is left
out or holds a sentinel (-1, the smallest integer). The call can hang for ever. `dumpsys battery`
tells all but the current, to apps that were granted `android.permission.DUMP`, as enrolment does
for Termux.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from exporters.command import CommandError, output
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
DUMPSYS_SECONDS = 3.0
AGAIN_SECONDS = 300.0
"""Where Termux:API fails and Android answers: a call that hangs holds the other sources up."""

FROZEN = "UPDATES STOPPED"
"""So `dumpsys battery` says once somebody has set its values: they are not the battery's."""

NEEDED = frozenset({BATTERY_TEMPERATURE, BATTERY_PLUGGED})
"""What safety needs to know."""

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
    limit = LIMIT_SECONDS + 2 * DUMPSYS_SECONDS + 2.0
    return Source("battery", Asker(layout).read, every_seconds=15.0, limit_seconds=limit)


class Asker:
    """Termux:API tells most and is asked first, unless it has just failed and Android answers."""

    def __init__(self, layout: Layout) -> None:
        self._termux = str(layout.prefix / "bin/termux-battery-status")
        self._dumpsys = str(layout.dumpsys)
        self._due = -math.inf

    def read(self) -> list[Sample]:
        """Raises Unavailable where neither tells anything."""
        if time.monotonic() < self._due:
            try:
                return self._ask_android()
            except (CommandError, Unavailable):
                self._due = -math.inf
        told: list[Sample] = []
        reasons = []
        try:
            told = parse(output([self._termux], limit_seconds=LIMIT_SECONDS))
            if {sample.metric for sample in told} >= NEEDED:
                return told
        except (CommandError, Unavailable) as problem:
            reasons.append(str(problem))
        try:
            known = {sample.metric for sample in told}
            told += [each for each in self._ask_android() if each.metric not in known]
        except (CommandError, Unavailable) as problem:
            reasons.append(str(problem))
        else:
            self._due = time.monotonic() + AGAIN_SECONDS if reasons else -math.inf
        if not told:
            raise Unavailable("; ".join(reasons))
        return told

    def _ask_android(self) -> list[Sample]:
        said = output([self._dumpsys, "battery"], limit_seconds=DUMPSYS_SECONDS)
        return parse_dumpsys(said.decode(errors="replace"))


def parse(text: bytes) -> list[Sample]:
    """Raises Unavailable if nothing usable is in it."""
    try:
        status = json.loads(text)
    except (ValueError, RecursionError):
        raise Unavailable(f"not JSON: {text[:40]!r}") from None
    if not isinstance(status, dict):
        raise Unavailable(f"not a JSON object: {text[:40]!r}")
    return _possible(_samples(status), repr(text[:40]))


def parse_dumpsys(text: str) -> list[Sample]:
    """What `dumpsys battery` prints: the temperature in tenths of a degree, status and health as
    Android's numbers. Raises Unavailable if nothing usable is in it."""
    if FROZEN in text:
        raise Unavailable("somebody froze its values: `dumpsys battery reset` in `adb shell`")
    fields = dict(re.findall(r"^\s*([A-Za-z][\w ]*): *(-?\w+)\s*$", text, re.MULTILINE))
    whole = {key: int(said) for key, said in fields.items() if re.fullmatch(r"-?\d{1,9}", said)}
    powered = [fields.get(f"{way} powered") for way in ("AC", "USB", "Wireless", "Dock")]
    status: dict[str, Any] = {
        "voltage": whole.get("voltage"),
        "status": dict(enumerate(_ANDROIDS_STATUSES, 1)).get(whole.get("status", 0)),
        "health": dict(enumerate(_ANDROIDS_HEALTHS, 1)).get(whole.get("health", 0)),
    }
    if "temperature" in whole:
        status["temperature"] = whole["temperature"] / 10
    if whole.get("scale") and "level" in whole:
        status["percentage"] = whole["level"] / whole["scale"] * 100
    if {"true", "false"} & set(powered):
        status["plugged"] = "PLUGGED_AC" if "true" in powered else "UNPLUGGED"
    return _possible(_samples(status), f"dumpsys: {text[:80]!r}")


_ANDROIDS_STATUSES = ("UNKNOWN", "CHARGING", "DISCHARGING", "NOT_CHARGING", "FULL")
_ANDROIDS_HEALTHS = (
    "UNKNOWN",
    "GOOD",
    "OVERHEAT",
    "DEAD",
    "OVER_VOLTAGE",
    "UNSPECIFIED_FAILURE",
    "COLD",
)
"""By their numbers, from 1."""


def _possible(told: Iterable[Sample], text: str) -> list[Sample]:
    samples = [each for each in told if each.metric.is_possible(each.value)]
    if not samples:
        raise Unavailable(f"no battery value in {text}")
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
