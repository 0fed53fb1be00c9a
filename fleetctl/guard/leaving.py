"""Runs that shall do without a phone: its rank is killed, and if that is not enough the run ends.

A run that is supervised goes on from its newest checkpoint on other phones, since a drained one is
not taken again; the phone is free within half a minute. One that nobody supervises is stopped.
Pure.
"""

from __future__ import annotations

from fleetctl.guard.danger import STOP_AFTER_SECONDS
from fleetctl.guard.layout import Turn
from fleetctl.guard.memory import Order

RECOVERY_SECONDS = 45.0
"""So long a run may take to let go of a phone whose rank was killed."""


def leave(turn: Turn, name: str) -> None:
    """Give the orders that free a phone from its run, if it has to be."""
    phone, run = turn.phone(name), turn.run(name)
    why = _reason(turn, name)
    if run is None or why is None:
        phone.leaving = None
        return
    if phone.leaving is None:
        phone.leaving = turn.now
        turn.order(f"kill:{name}", Order(why, turn.now))
    elif turn.now - phone.leaving > RECOVERY_SECONDS:
        turn.order(f"stop:{run}", Order(why, turn.now))


def _reason(turn: Turn, name: str) -> str | None:
    phone = turn.phone(name)
    if phone.latch is not None:
        return phone.latch.why
    if phone.silent:
        return "it tells nothing of its battery"
    if phone.hot_since is not None and turn.now - phone.hot_since > STOP_AFTER_SECONDS:
        return f"its battery has been hot for {STOP_AFTER_SECONDS:.0f} s"
    return None
