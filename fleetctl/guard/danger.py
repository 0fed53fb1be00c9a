"""What a phone's battery means: how hot it is, whether it is well, whether it is heard of. Pure."""

from __future__ import annotations

from fleetctl.guard.actions import Sample
from fleetctl.guard.layout import Turn
from fleetctl.guard.memory import Latch, Order, PhoneMemory
from fleetctl.power.outlets import LATCH_DRAIN
from fleetctl.rack import GuardLimits

WARM, HOT = 1, 2
RELIEF_CELSIUS = 2.0
"""By so much it must have cooled below a limit to be rid of it."""

STOP_AFTER_SECONDS = 60.0
"""So long a hot phone's job may try to slow down before it is ended."""

CALL_WHEN_HOT_SECONDS = 600.0
"""A phone that stays hot without job and charger is in the wrong place."""

LIFTED_SECONDS = 10.0
"""So long after a clear the state may not show yet that there was a drain to lift."""


def fatal(sample: Sample, limits: GuardLimits) -> str | None:
    """Why the phone must be cut off at once and for good."""
    if sample.celsius >= limits.cut_celsius:
        return f"its battery had {sample.celsius:.1f} °C (limit {limits.cut_celsius:g})"
    if sample.health not in (None, "GOOD"):
        return f"Android says of its battery: {sample.health.lower().replace('_', ' ')}"
    return None


def level_of(celsius: float, before: int, limits: GuardLimits) -> int:
    reached = (celsius >= limits.warn_celsius) + (celsius >= limits.drain_celsius)
    kept = (celsius >= limits.warn_celsius - RELIEF_CELSIUS) + (
        celsius >= limits.drain_celsius - RELIEF_CELSIUS
    )
    return max(reached, min(before, kept))


def take(turn: Turn, name: str, sample: Sample) -> None:
    """A new sample of a phone."""
    phone = turn.phone(name)
    if phone.sample is not None and sample.time <= phone.sample.time:
        return
    phone.sample = sample
    phone.heard = max(phone.heard, sample.time)
    if phone.problem is not None:
        phone.problem = None
        _reach(turn, name)
    if phone.silent:
        phone.silent = False
        turn.note(name, "tells the state of its battery again")
        turn.settled("silent", name)
    if phone.latch is None and (why := fatal(sample, turn.limits)):
        latch(turn, name, why)
    _heat(turn, name, phone, sample)


def _reach(turn: Turn, name: str) -> None:
    """It answers again: it is told at once what it may not have heard."""
    if (order := turn.memory.orders.get(f"kill:{name}")) is not None:
        order.begin_anew()


def latch(turn: Turn, name: str, why: str) -> None:
    """From here on its power is off and it takes no jobs until a person clears it."""
    turn.phone(name).latch, turn.phone(name).cleared = Latch(why, turn.now), None
    turn.note(name, f"latched: {why}")
    # One for a lesser reason may be waiting for its next try.
    turn.memory.orders[f"kill:{name}"] = Order(why, turn.now)


def keep_latch(turn: Turn, name: str) -> None:
    """The drain of a latch that no person has cleared is one, whatever memory says: that may be
    lost or older, since a disk was full."""
    phone = turn.phone(name)
    drained = LATCH_DRAIN in turn.drains(name)
    if phone.latch is None and phone.cleared is None and drained:
        latch(turn, name, "latched earlier; guard forgot why")
    elif phone.cleared is not None and name in turn.facts and not drained:
        # The state shows late what was asked of it.
        phone.cleared = None if turn.now - phone.cleared > LIFTED_SECONDS else phone.cleared


def _heat(turn: Turn, name: str, phone: PhoneMemory, sample: Sample) -> None:
    level = level_of(sample.celsius, phone.level, turn.limits)
    if level == phone.level:
        return
    words = ("cool again", "warm", "hot")
    turn.note(name, f"{words[level]}: {sample.celsius:.1f} °C")
    if level == HOT:
        phone.hot_since = turn.now
    elif phone.level == HOT:
        phone.hot_since = None
        turn.settled("hot", name)
    phone.level = level


def listen(turn: Turn, name: str) -> None:
    """Whether a phone that may be charging, or computes, has said nothing for too long."""
    phone = turn.phone(name)
    if not phone.silent and _is_silent(turn, name, phone):
        phone.silent = True
        turn.note(name, "tells nothing of its battery while it may be charging, or computes")
    if phone.silent:
        _tell_silent(turn, name, phone)


def _is_silent(turn: Turn, name: str, phone: PhoneMemory) -> bool:
    """One that computes is expected all the time, an idle one for as long as it may be fed."""
    feeder, heard = turn.layout.feeder.get(name), phone.heard
    if turn.run(name) is None and phone.sample is not None and not phone.sample.plugged:
        if feeder is None or not turn.memory.outlets[feeder].on:
            phone.unfed = turn.now
            return False
        heard = max(heard, phone.unfed)  # it had no power until then, and may have to start
    return turn.now - heard > turn.limits.silent_seconds


def _tell_silent(turn: Turn, name: str, phone: PhoneMemory) -> None:
    order = turn.memory.orders.get(f"switch:{turn.layout.feeder.get(name)}")
    if name not in turn.layout.feeder:
        way = "the rack file has no outlet for it: pull its plug"
    elif order is not None and order.denied:
        way = "its outlet did not cut its power: pull its plug"
    else:
        way = "its power is cut, which nothing proves"
    reason = f" ({phone.problem})" if phone.problem else ""
    turn.call(
        "silent",
        name,
        f"{name} has told nothing of its battery for {turn.limits.silent_seconds / 60:.0f} min "
        f"while it may be charging, or computes{reason}; {way}",
    )


def stay_hot(turn: Turn, name: str) -> None:
    """Call a person for a phone that does not cool down whatever is done."""
    phone = turn.phone(name)
    if phone.level < HOT or phone.hot_since is None or phone.latch is not None:
        return
    waited = turn.now - phone.hot_since
    helpless = name not in turn.layout.feeder and turn.run(name) is None
    if waited > (STOP_AFTER_SECONDS if helpless else CALL_WHEN_HOT_SECONDS):
        celsius = f"{phone.sample.celsius:.1f} °C" if phone.sample else "too hot"
        turn.call("hot", name, f"{name} stays at {celsius}: fans, air, its neighbours")
