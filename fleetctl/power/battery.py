"""What a phone's own battery says: plugged or not, how warm, how full, how well. Pure but `look`.

A hub may say "off" while its outlet stays live, so only this is believed. Android is asked by
`dumpsys battery`, which apps may that were granted DUMP at enrolment; else Termux:API, which may
hang for ever; else what the phone's exporter read last.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleetctl.rack.variables import TERMUX_PREFIX

if TYPE_CHECKING:
    from fleetctl.remote import Fleet, Result

SOURCE_SECONDS = 3
LIMIT_SECONDS = 8.0
STALE_AFTER_SECONDS = 40.0
"""The exporter reads the battery every 15 s; what is older may not be true any more."""

PROBE = f"""
t() {{ timeout -s KILL {SOURCE_SECONDS} "$@" 2>/dev/null </dev/null; }}
said=$(t /system/bin/dumpsys battery)
case $said in *temperature:*) printf 'dumpsys\\n%s\\n' "$said"; exit 0;; esac
said=$(t {TERMUX_PREFIX}/bin/termux-battery-status)
case $said in *'{{'*) printf 'termux\\n%s\\n' "$said"; exit 0;; esac
echo "exporter $(date +%s)"
cat phonerack/exporter/snapshot.json 2>/dev/null || true
"""

FROZEN = "UPDATES STOPPED"
"""So `dumpsys battery` says after `dumpsys battery set` or `unplug`: what it tells, and Termux:API
as well, is what somebody typed, or of then."""

CELSIUS = (-40.0, 120.0)
"""What a sensor may say; the rest is nonsense."""

HEALTHS = {
    2: "GOOD",
    3: "OVERHEAT",
    4: "DEAD",
    5: "OVER_VOLTAGE",
    6: "UNSPECIFIED_FAILURE",
    7: "COLD",
}
"""Android's numbers. 1 is UNKNOWN, which says nothing."""

_CHARGING = {2: True, 3: False, 4: False, 5: False}
_KNOWN = frozenset(HEALTHS.values())


@dataclass(frozen=True, slots=True)
class Battery:
    """One look. None is unknown, never zero; `problem` says why nothing is known at all.

    `age_seconds`: how old it was when the phone told it.
    """

    celsius: float | None = None
    percent: float | None = None
    plugged: bool | None = None
    charging: bool | None = None
    health: str | None = None
    age_seconds: float = 0.0
    problem: str | None = None

    @property
    def known(self) -> bool:
        """Whether it says what safety needs."""
        return self.celsius is not None and self.plugged is not None


async def look(fleet: Fleet, names: Iterable[str]) -> dict[str, Battery]:
    """Ask phones at once; nothing is raised for a phone."""
    order = list(names)
    found = await asyncio.gather(*(look_at(fleet, name) for name in order))
    return dict(zip(order, found, strict=True))


async def look_at(fleet: Fleet, name: str) -> Battery:
    return read(name, await fleet.run_on(name, PROBE, timeout_seconds=LIMIT_SECONDS))


def read(name: str, result: Result) -> Battery:
    """The battery from the probe's output."""
    if result.error is not None:
        return Battery(problem=str(result.error))
    first, _, rest = result.stdout.partition("\n")
    source, _, clock = first.partition(" ")
    found: Battery | None = None
    try:
        match source:
            case "dumpsys":
                found = of_dumpsys(rest)
            case "termux":
                found = of_termux(rest)
            case "exporter":
                found = of_exporter(rest, float(clock))
    except (ValueError, TypeError, KeyError, AttributeError, LookupError, RecursionError):
        pass  # it says nothing of use
    if source == "dumpsys" and FROZEN in rest:
        return Battery(
            problem=f"{name}: somebody froze what Android tells of its battery; run "
            "`dumpsys battery reset` in `adb shell`, or restart it"
        )
    if found is None or not found.known:
        return Battery(problem=f"{name} does not tell the state of its battery")
    return found


def of_dumpsys(text: str) -> Battery:
    """`dumpsys battery`: the temperature in tenths of a degree, health and status as numbers."""
    fields = dict(re.findall(r"^\s*([A-Za-z][\w ]*): *(-?\w+)\s*$", text, re.MULTILINE))
    powered = [fields.get(f"{way} powered") for way in ("AC", "USB", "Wireless", "Dock")]
    said = [word == "true" for word in powered if word in ("true", "false")]
    tenths, level, scale = (_whole(fields, key) for key in ("temperature", "level", "scale"))
    return Battery(
        celsius=_within(None if tenths is None else tenths / 10, *CELSIUS),
        percent=_within(level / scale * 100 if level is not None and scale else None, 0, 100),
        plugged=any(said) if said else None,
        charging=_CHARGING.get(_whole(fields, "status") or 0),
        health=HEALTHS.get(_whole(fields, "health") or 0),
    )


def of_termux(text: str) -> Battery:
    """`termux-battery-status`. Raises ValueError for what is no JSON."""
    status = json.loads(text)
    plugged, word = status.get("plugged"), status.get("status")
    return Battery(
        celsius=_within(_number(status.get("temperature")), *CELSIUS),
        percent=_within(_number(status.get("percentage")), 0, 100),
        plugged=plugged != "UNPLUGGED" if _is_plug(plugged) else None,
        charging=word == "CHARGING" if word in _STATUSES else None,
        health=status.get("health") if status.get("health") in _KNOWN else None,
    )


def of_exporter(text: str, clock: float) -> Battery | None:
    """The exporter's snapshot; None if its battery was read too long ago. Raises for damage."""
    metrics = json.loads(text)["metrics"]

    def value(name: str) -> float | None:
        samples = metrics.get(f"phonerack_{name}")
        return _number(samples[0]["value"]) if samples else None

    def word(name: str, label: str) -> str | None:
        for each in metrics.get(f"phonerack_{name}", ()):
            if each["value"]:
                return str(each["labels"][label]).upper()
        return None

    reads = metrics.get("phonerack_collector_last_success_timestamp_seconds", ())
    times = [float(each["value"]) for each in reads if each["labels"]["source"] == "battery"]
    if not times or not abs(clock - times[0]) <= STALE_AFTER_SECONDS:
        return None
    plugged, ratio = value("battery_plugged"), value("battery_charge_ratio")
    health, status = word("battery_health", "health"), word("battery_status", "status")
    return Battery(
        celsius=_within(value("battery_temperature_celsius"), *CELSIUS),
        percent=_within(None if ratio is None else ratio * 100, 0, 100),
        plugged=None if plugged is None else bool(plugged),
        charging=status == "CHARGING" if status in _STATUSES else None,
        health=health if health in _KNOWN else None,
        age_seconds=abs(clock - times[0]),
    )


_STATUSES = ("CHARGING", "DISCHARGING", "NOT_CHARGING", "FULL")


def _is_plug(word: Any) -> bool:
    return isinstance(word, str) and (word == "UNPLUGGED" or word.startswith("PLUGGED_"))


def _whole(fields: dict[str, str], key: str) -> int | None:
    text = fields.get(key, "")
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _within(value: float | None, low: float, high: float) -> float | None:
    return value if value is not None and low <= value <= high else None
