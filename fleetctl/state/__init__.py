"""What the rack file does not know about its phones, kept in SQLite."""

from fleetctl.state.facts import (
    AdbTry,
    Contact,
    Drain,
    Health,
    Holding,
    PhoneFacts,
    Revocations,
    derive,
)
from fleetctl.state.store import Drained, Held, State, StateError

__all__ = [
    "AdbTry",
    "Contact",
    "Drain",
    "Drained",
    "Health",
    "Held",
    "Holding",
    "PhoneFacts",
    "Revocations",
    "State",
    "StateError",
    "derive",
]
