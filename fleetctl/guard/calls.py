"""Calls to persons: made when due, those of one kind together, again until somebody is reached.

Only its command's good end proves that a call went out. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleetctl.guard.actions import Call, Outcome
from fleetctl.guard.layout import Turn
from fleetctl.guard.memory import OpenCall

PATIENT_SECONDS = 8.0
"""Calls for phones that are silent wait so long for others, since a switch may have died."""

PATIENT = ("silent",)
MOST_IN_A_CALL = 3

AGAIN_SECONDS = 60.0
EAGER_TRIES = 60
LATER_SECONDS = 600.0
"""After so many tries that reached nobody, one in ten minutes, for as long as it is needed."""


def answer(turn: Turn, outcome: Outcome) -> None:
    """How the command of a call ended."""
    for call in turn.memory.calls.values():
        if outcome.key == f"call:{call.number}" and call.sent and not call.reached:
            call.reached, call.said = outcome.ok, outcome.said
            if not outcome.ok:
                call.sent, call.failed = False, turn.now


def due(turn: Turn) -> Iterator[Call]:
    """Calls that are to be made now."""
    waiting: dict[str, list[OpenCall]] = {}
    for call in turn.memory.calls.values():
        if not call.sent and _rested(turn, call):
            waiting.setdefault(call.what, []).append(call)
    for what, calls in waiting.items():
        patient = what in PATIENT and turn.now - calls[0].since < PATIENT_SECONDS
        if patient:
            continue
        turn.memory.called += 1
        for call in calls:
            call.sent, call.number = True, turn.memory.called
            call.tries += 1
        more = len(calls) - MOST_IN_A_CALL
        text = "; ".join(call.message for call in calls[:MOST_IN_A_CALL])
        yield Call(
            what,
            tuple(call.phone for call in calls),
            text + (f"; and {more} phones more" if more > 0 else ""),
            turn.memory.called,
        )


def _rested(turn: Turn, call: OpenCall) -> bool:
    """Whether a call that failed may be tried again."""
    pause = AGAIN_SECONDS if call.tries < EAGER_TRIES else LATER_SECONDS
    return call.failed is None or turn.now - call.failed >= pause
