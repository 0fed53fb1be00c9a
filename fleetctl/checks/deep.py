"""Checks that take longer than a launch would wait: level 2 a minute, level 3 a burn-in. Pure.

A later check of level 1 would forget what they found, so each of them drains the phones that fail.
"""

from __future__ import annotations

from fleetctl.checks.answer import PhoneFacts, unknown
from fleetctl.checks.registry import Result, check
from fleetctl.rack import Rack

WIFI_GOODPUT_MBITS = 20.0
"""The floor of goodput where phones share the air, unless the rack file says another."""

ETHERNET_GOODPUT_MBITS = 200.0
"""Below it, a link is no gigabit and no USB 2 hub either."""


@check(
    name="identity",
    scope="phone",
    level=2,
    cure="find out which phone it is; enrol it (`fleetctl enroll`), or correct the rack file",
    drains=True,
)
def identity(facts: PhoneFacts, rack: Rack) -> Result:
    """It is the model and has the Android that rack file and enrolment know. An app cannot read the
    serial; who answers has already proved the phone's host key."""
    if silent := unknown(facts):
        return silent
    said, phone = (facts.deep.said or {}).get("android"), rack.phones[facts.name]
    if not said:
        return Result("UNKNOWN", "its model is not told")
    model, level = said.get("model"), said.get("api_level")
    if phone.model and model and phone.model != model:
        return Result("CRITICAL", f"is a {model}, the rack file says {phone.model}")
    if phone.api_level and level and phone.api_level != level:
        return Result("WARN", f"has API level {level}, enrolment found {phone.api_level}")
    return Result("OK", f"{model}, API level {level}")


@check(
    name="wake-lock",
    scope="phone",
    level=2,
    cure="run termux-wake-lock on it; Termux:Boot does so at boot",
)
def wake_lock(facts: PhoneFacts, _: Rack) -> Result:
    """Termux holds its wake lock."""
    if silent := unknown(facts):
        return silent
    held = facts.deep.wake_lock
    if held is None:
        return Result("UNKNOWN", "it tells no app who holds wake locks", ordinary=True)
    return Result("OK", "wake lock held") if held else Result("WARN", "holds no wake lock")


@check(
    name="mtu",
    scope="phone",
    level=2,
    cure="compare `mtu` in the rack file with its adapter and the switch's port",
    drains=True,
)
def mtu(facts: PhoneFacts, rack: Rack) -> Result:
    """Whole packets reach the next phone of the ring."""
    if silent := unknown(facts):
        return silent
    problem = facts.deep.mtu_problem
    if problem is None:
        return Result("UNKNOWN", "no other phone to send to", ordinary=True)
    if problem:
        return Result("CRITICAL", problem)
    return Result("OK", f"packets of {rack.network.mtu} bytes pass")


@check(
    name="loss",
    scope="phone",
    level=2,
    cure="cable first, then adapter, then port: see PhoneLinkErrors in docs/runbooks/switches.md",
    limits=("max_loss_ratio",),
    drains=True,
)
def loss(facts: PhoneFacts, rack: Rack) -> Result:
    """Packets to the next phone of the ring arrive."""
    if silent := unknown(facts):
        return silent
    if facts.deep.look_lost:
        return Result("CRITICAL", f"was lost while it was looked at: {facts.deep.look_lost}")
    ratio, limit = facts.deep.loss_ratio, rack.thresholds.max_loss_ratio
    if ratio is None:
        said = "it lets no app ping, or there is no other phone"
        return Result("UNKNOWN", said, ordinary=True)
    if ratio > limit:
        return Result("CRITICAL", f"loses {ratio:.1%} of its packets, more than {limit:.1%}")
    return Result("OK", f"loses {ratio:.1%} of its packets")


@check(
    name="goodput",
    scope="phone",
    level=3,
    cure="see `fleetctl bench net` for the class of its link; cable, adapter, hub, port",
    limits=("min_goodput_mbits",),
    drains=True,
)
def goodput(facts: PhoneFacts, rack: Rack) -> Result:
    """iperf3 with a neighbour reaches the floor."""
    if silent := unknown(facts):
        return silent
    mbits = facts.deep.goodput_mbits
    usual = WIFI_GOODPUT_MBITS if rack.network.medium == "wifi" else ETHERNET_GOODPUT_MBITS
    floor = rack.thresholds.min_goodput_mbits or usual
    if mbits is None:
        why = facts.deep.goodput_problem
        said = f"its goodput could not be measured: {why or 'there is no other phone'}"
        return Result("UNKNOWN", said, ordinary=why is None)
    if mbits < floor:
        return Result("CRITICAL", f"carries {mbits:.0f} Mb/s, the floor is {floor:.0f} Mb/s")
    return Result("OK", f"carries {mbits:.0f} Mb/s")


@check(
    name="burn-in",
    scope="phone",
    level=3,
    cure="take it out of the rack: memory or storage that forgets spoils every run",
    limits=("burn_in_seconds",),
    drains=True,
)
def burn_in(facts: PhoneFacts, _: Rack) -> Result:
    """Memory and storage give back what was written while all cores compute."""
    if silent := unknown(facts):
        return silent
    problem = facts.deep.burn_problem
    if facts.deep.burn_lost:
        return Result("CRITICAL", f"was lost in its burn-in: {facts.deep.burn_lost}")
    if problem is None:
        return Result("UNKNOWN", "the burn-in did not run to its end")
    return Result("CRITICAL", problem) if problem else Result("OK", "memory and storage are sound")


@check(
    name="sustained",
    scope="phone",
    level=3,
    cure="cool it: fans, air, more room between phones; a worn battery throttles too",
    limits=("min_sustained_ratio", "max_temperature_celsius"),
    drains=True,
)
def sustained(facts: PhoneFacts, rack: Rack) -> Result:
    """It stays fast and cool enough while all cores compute."""
    if silent := unknown(facts):
        return silent
    ratio, celsius, limits = facts.deep.sustained_ratio, facts.deep.burn_celsius, rack.thresholds
    if ratio is None:
        told = facts.deep.burn_lost is not None
        return Result("UNKNOWN", "the burn-in did not run to its end", ordinary=told)
    said = f"keeps {ratio:.0%} of its first speed"
    if celsius is not None:
        said += f" at {celsius:.0f} °C"
    if celsius is not None and celsius >= limits.max_temperature_celsius:
        limit = limits.max_temperature_celsius
        return Result("CRITICAL", f"reaches {celsius:.0f} °C at work, the limit is {limit:g} °C")
    if ratio < limits.min_sustained_ratio:
        return Result("CRITICAL", f"{said}, less than {limits.min_sustained_ratio:.0%}")
    return Result("OK", said)
