"""What the rack file does not know about its phones, kept in SQLite."""

from fleetctl.state.errors import Drained, Held, StateError
from fleetctl.state.facts import (
    AdbTry,
    Allocation,
    Contact,
    Drain,
    Health,
    Holding,
    PhoneFacts,
    Revocations,
    derive,
)
from fleetctl.state.history import Event
from fleetctl.state.rows import user
from fleetctl.state.store import State

__all__ = [
    "AdbTry",
    "Allocation",
    "Contact",
    "Drain",
    "Drained",
    "Event",
    "Health",
    "Held",
    "Holding",
    "PhoneFacts",
    "Revocations",
    "State",
    "StateError",
    "derive",
    "user",
]
