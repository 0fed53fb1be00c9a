"""Checks of a phone as a thing: heat, battery, power, cores, sleep. Pure.

What an exporter read is used where there is one; a rack without exporters is told of nothing.
"""

from __future__ import annotations

from fleetctl.checks.answer import PhoneFacts, unknown
from fleetctl.checks.readings import Readings
from fleetctl.checks.registry import Result, check
from fleetctl.rack import Rack

WARM_BELOW_LIMIT_CELSIUS = 5.0
"""So near to its limit a phone is warm already."""

SEVERE = 3
"""Android's thermal status from which on it slows the processor down a lot."""

SLEPT_SECONDS, SLEPT_RATIO = 5.0, 0.01
"""A clock may be off by a little; a phone that sleeps does so for more."""

_NO_EXPORTER = Result("OK", "it has no exporter that tells")


def _unread(facts: PhoneFacts) -> Result | None:
    """The answer where there is nothing to look at; else None, and `readings` can be used."""
    if silent := unknown(facts):
        return silent
    if facts.readings is None:
        return _NO_EXPORTER
    return Result("UNKNOWN", facts.readings.problem) if facts.readings.problem else None


def _readings(facts: PhoneFacts) -> Readings:
    return facts.readings or Readings()


@check(
    name="exporter",
    scope="phone",
    cure="run site.yml -t exporter, or restart the service phonerack-exporter",
)
def exporter(facts: PhoneFacts, _: Rack) -> Result:
    """What watches its hardware is at work."""
    if silent := unknown(facts):
        return silent
    if facts.readings is None:
        return _NO_EXPORTER
    if facts.readings.problem:
        return Result("WARN", facts.readings.problem)
    return Result("OK", "its exporter is at work")


@check(
    name="temperature",
    scope="phone",
    cure="let it cool down: fans, air, its neighbours; see what it is busy with",
    limits=("max_temperature_celsius",),
)
def temperature(facts: PhoneFacts, rack: Rack) -> Result:
    """The battery is cool enough to begin work that warms it."""
    if unread := _unread(facts):
        return unread
    celsius, limit = _readings(facts).temperature_celsius, rack.thresholds.max_temperature_celsius
    if celsius is None:
        return Result("UNKNOWN", "its temperature is not told")
    if celsius >= limit:
        return Result("CRITICAL", f"its battery has {celsius:.0f} °C, the limit is {limit:g} °C")
    if celsius >= limit - WARM_BELOW_LIMIT_CELSIUS:
        return Result("WARN", f"its battery has {celsius:.0f} °C, near the limit of {limit:g} °C")
    return Result("OK", f"{celsius:.0f} °C")


@check(
    name="throttling",
    scope="phone",
    cure="let it cool down: fans, air, its neighbours",
)
def throttling(facts: PhoneFacts, _: Rack) -> Result:
    """Android does not slow it down."""
    if unread := _unread(facts):
        return unread
    status = _readings(facts).thermal_status
    if status is not None and status >= SEVERE:
        return Result("WARN", f"Android slows it down for heat (thermal status {status})")
    return Result("OK", "not slowed down, as far as Android tells")


def heat(facts: PhoneFacts, rack: Rack) -> str | None:
    """Why a phone is too warm to be chosen for a job while there are cooler ones; None if it is
    not, or nothing tells."""
    readings = facts.readings or Readings()
    celsius, status = readings.temperature_celsius, readings.thermal_status
    if celsius is not None and celsius >= (
        rack.thresholds.max_temperature_celsius - WARM_BELOW_LIMIT_CELSIUS
    ):
        return f"its battery has {celsius:.0f} °C"
    if status:
        return f"Android takes it for hot (thermal status {status})"
    return None


@check(
    name="battery-health",
    scope="phone",
    cure="look at it: a swollen battery goes out of the rack at once; replace phone or battery",
    drains=True,
)
def battery_health(facts: PhoneFacts, _: Rack) -> Result:
    """Android finds nothing wrong with the battery."""
    if unread := _unread(facts):
        return unread
    health = _readings(facts).battery_health
    if health in (None, "unknown"):
        # Some models never know better.
        said = "the health of its battery is not told"
        return Result("UNKNOWN", said, ordinary=health is not None)
    if health == "cold":
        return Result("WARN", "its battery is cold")
    if health != "good":
        return Result("CRITICAL", f"its battery is not well: {health}")
    return Result("OK", "battery good")


@check(
    name="charge",
    scope="phone",
    cure="see that power reaches it, and its charge limit (site.yml -t bootstrap)",
    limits=("min_charge_ratio", "max_charge_ratio"),
)
def charge(facts: PhoneFacts, rack: Rack) -> Result:
    """The charge is in the window in which batteries last."""
    if unread := _unread(facts):
        return unread
    ratio, limits = _readings(facts).charge_ratio, rack.thresholds
    if ratio is None:
        return Result("UNKNOWN", "its charge is not told")
    if ratio < limits.min_charge_ratio:
        return Result("WARN", f"is charged to {ratio:.0%}, less than {limits.min_charge_ratio:.0%}")
    if ratio > limits.max_charge_ratio:
        return Result(
            "WARN",
            f"is charged to {ratio:.0%}, more than {limits.max_charge_ratio:.0%}: batteries that "
            "stay full swell",
        )
    return Result("OK", f"charge {ratio:.0%}")


@check(name="plugged", scope="phone", cure="check its cable, its hub and `fleetctl power NODES`")
def plugged(facts: PhoneFacts, _: Rack) -> Result:
    """Power reaches the phone."""
    if unread := _unread(facts):
        return unread
    seen = _readings(facts).plugged
    if seen is None:
        return Result("UNKNOWN", "whether it is plugged in is not told")
    return Result("OK", "plugged in") if seen else Result("WARN", "runs on its battery")


@check(
    name="cpuset",
    scope="phone",
    cure="hold its wake lock, and keep the screen's app in front where that does not help",
)
def cpuset(facts: PhoneFacts, _: Rack) -> Result:
    """Android lets Termux use all cores."""
    if unread := _unread(facts):
        return unread
    allowed, cores = _readings(facts).cpus_allowed, _readings(facts).cpus
    if allowed is not None and cores is not None and allowed < cores:
        return Result("WARN", f"Android keeps it to {allowed} of {cores} cores")
    return Result("OK", "all cores")


@check(name="awake", scope="phone", cure="run termux-wake-lock on it; Termux:Boot does so at boot")
def awake(facts: PhoneFacts, _: Rack) -> Result:
    """It has not slept since the last look: its wake lock holds."""
    if silent := unknown(facts):
        return silent
    slept, since = facts.slept_seconds, facts.since_look_seconds
    if slept is None or since is None:
        return Result("OK", "not looked at before")
    if slept > max(SLEPT_SECONDS, SLEPT_RATIO * since):
        return Result(
            "WARN", f"slept for {slept:.0f} of the last {since:.0f} s: its wake lock does not hold"
        )
    return Result("OK", "stayed awake")
