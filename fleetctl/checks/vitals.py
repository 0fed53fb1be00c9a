"""What a phone says about itself right now: one quick look, by one command, for `status`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fleetctl.checks.readings import STALE_AFTER_SECONDS
from fleetctl.rack.variables import REVOCATIONS_FILE
from fleetctl.remote.faults import Fault

if TYPE_CHECKING:
    from fleetctl.remote import Fleet, Result

_OLDEST = """\
read -r told </proc/$$/stat; set -- ${told##*) }
youngest=${20} oldest=${20}
while [ "${2:-0}" -gt 1 ] && read -r told </proc/$2/stat; do
    set -- ${told##*) }
    oldest=${20}
done"""
"""Shell: when this look's own shell and the oldest of its ancestors began, in ticks since the
phone's start, as proc(5) gives them after the name in brackets. Android shows an app its own
processes only, and when the phone itself started not at all: the ancestors end with the supervisor
of the services, which the restarts of sshd leave alone. No program is started for it."""

_TICKS_PER_SECOND = 100
"""Of /proc, on Android and Linux alike."""

PROBE = f"""
{{
{_OLDEST}
}} 2>/dev/null
up=-
[ -n "$youngest" ] && [ -n "$oldest" ] && up=$((youngest - oldest))
echo "$(date +%s) $up $(od -An -v -tx1 -j12 -N8 {REVOCATIONS_FILE} 2>/dev/null)"
cat phonerack/exporter/snapshot.json 2>/dev/null || true
"""
"""Prints the phone's own time, for how long what started this look has been running, and the
version of its list of revoked keys on one line, then what its exporter last read. A bare phone has
neither list nor exporter."""

PROBE_LIMIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Vitals:
    """One look at a phone; None is unknown, never zero. `problem` names the phone and the cure.

    `reached` is None if nobody can tell: no host key of the phone is known, or another answers.
    """

    reached: bool | None = None
    problem: str | None = None
    temperature_celsius: float | None = None
    battery_ratio: float | None = None
    run: str | None = None
    iteration: int | None = None
    iterations: int | None = None
    loss: float | None = None
    test_accuracy: float | None = None
    cpus_allowed: int | None = None
    """How many cores Android lets us run on; `cpus` is how many there are."""
    cpus: int | None = None
    revocations: int | None = None
    """Version of its list of revoked keys."""
    up_seconds: float | None = None
    """For how long its services have been running: they began anew after a restart."""
    throttled: bool = False
    """Its sshd is there, and lets this machine wait."""
    hottest_celsius: float | None = None
    """Of its thermal zones; `temperature_celsius` is the battery's."""
    throttled_seconds: float | None = None
    """Since its exporter began."""


async def look(fleet: Fleet, names: Iterable[str]) -> dict[str, Vitals]:
    """Look at all phones at once."""
    order = list(names)
    looks = await asyncio.gather(*(look_at(fleet, name) for name in order))
    return dict(zip(order, looks, strict=True))


async def look_at(fleet: Fleet, name: str) -> Vitals:
    return read(name, await fleet.run_on(name, PROBE, timeout_seconds=PROBE_LIMIT_SECONDS))


def read(name: str, result: Result) -> Vitals:
    """Vitals from the probe's output."""
    if result.error is not None:
        throttled = result.error.fault is Fault.THROTTLED
        return Vitals(result.error.reached, str(result.error), throttled=throttled)
    first, _, snapshot = result.stdout.partition("\n")
    clock, _, rest = first.partition(" ")
    ticks, _, octets = rest.partition(" ")
    up_seconds = int(ticks) / _TICKS_PER_SECOND if ticks.isdigit() else None
    version = octets.replace(" ", "")
    # A list that was cut off has no version; sshd then lets nobody in, but this session is older.
    revocations = int(version, 16) if len(version) == 16 else None
    found = _from_snapshot(name, clock, snapshot)
    return replace(found, revocations=revocations, up_seconds=up_seconds)


def _from_snapshot(name: str, clock: str, snapshot: str) -> Vitals:
    if not snapshot.strip():
        return Vitals(reached=True)
    try:
        document = json.loads(snapshot)
        age_seconds = float(clock) - float(document["time"])
        found = _from_metrics(document["metrics"])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError):
        return Vitals(reached=True, problem=f"{name}: its exporter's snapshot is damaged")
    if age_seconds > STALE_AFTER_SECONDS:
        return Vitals(
            reached=True,
            problem=f"{name}: its exporter has been silent for {age_seconds:.0f} s; "
            "run site.yml -t exporter, or restart the service phonerack-exporter",
        )
    return found


def _from_metrics(metrics: dict[str, Any]) -> Vitals:
    def value(name: str) -> float | None:
        samples = metrics.get(f"phonerack_{name}")
        return float(samples[0]["value"]) if samples else None

    def count(name: str) -> int | None:
        found = value(name)
        return None if found is None else int(found)

    def most(name: str) -> float | None:
        samples = metrics.get(f"phonerack_{name}")
        return max((float(each["value"]) for each in samples), default=None) if samples else None

    info = metrics.get("phonerack_training_info")
    return Vitals(
        reached=True,
        temperature_celsius=value("battery_temperature_celsius"),
        hottest_celsius=most("thermal_zone_celsius"),
        throttled_seconds=most("throttled_seconds_total"),
        battery_ratio=value("battery_charge_ratio"),
        run=info[0]["labels"].get("run") if info else None,
        iteration=count("training_iteration"),
        iterations=count("training_iterations"),
        loss=value("training_loss"),
        test_accuracy=value("training_test_accuracy_ratio"),
        cpus_allowed=count("cpus_allowed"),
        cpus=count("cpus_possible"),
    )
