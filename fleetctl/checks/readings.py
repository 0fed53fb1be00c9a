"""What a phone's exporter last read of its hardware. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STALE_AFTER_SECONDS = 30.0
"""The exporter writes every 5 s; an older snapshot means that it has stopped."""


@dataclass(frozen=True, slots=True)
class Readings:
    """None is unknown, never zero. `problem`: why nothing of it can be used."""

    problem: str | None = None
    temperature_celsius: float | None = None
    charge_ratio: float | None = None
    plugged: bool | None = None
    battery_health: str | None = None
    thermal_status: int | None = None
    """0 not hot to 6 shutdown, as Android takes it."""
    cpus_allowed: int | None = None
    cpus: int | None = None


def read_snapshot(text: str | None, clock: float) -> Readings | None:
    """Readings from the snapshot's text; `clock` is the phone's own time. None: no exporter."""
    if not text or not text.strip():
        return None
    try:
        document = json.loads(text)
        age_seconds = float(clock) - float(document["time"])
        metrics = dict(document["metrics"])
    except (ValueError, KeyError, TypeError):
        return Readings("its exporter's snapshot is damaged")
    if age_seconds > STALE_AFTER_SECONDS:
        return Readings(f"its exporter has been silent for {age_seconds:.0f} s")
    return _from_metrics(metrics)


def _from_metrics(metrics: Mapping[str, Sequence[Mapping[str, Any]]]) -> Readings:
    def value(name: str) -> float | None:
        samples = metrics.get(f"phonerack_{name}")
        return float(samples[0]["value"]) if samples else None

    def count(name: str) -> int | None:
        found = value(name)
        return None if found is None else int(found)

    plugged = value("battery_plugged")
    healths = metrics.get("phonerack_battery_health") or ()
    return Readings(
        temperature_celsius=value("battery_temperature_celsius"),
        charge_ratio=value("battery_charge_ratio"),
        plugged=None if plugged is None else bool(plugged),
        battery_health=next((s["labels"]["health"] for s in healths if s["value"]), None),
        thermal_status=count("thermal_status"),
        cpus_allowed=count("cpus_allowed"),
        cpus=count("cpus_possible"),
    )
