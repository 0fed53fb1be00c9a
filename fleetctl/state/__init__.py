"""What the rack file does not know about its phones, kept in SQLite."""

from fleetctl.state.facts import Contact, Drain, Health, PhoneFacts, derive
from fleetctl.state.store import Drained, Held, State, StateError

__all__ = [
    "Contact",
    "Drain",
    "Drained",
    "Health",
    "Held",
    "PhoneFacts",
    "State",
    "StateError",
    "derive",
]
