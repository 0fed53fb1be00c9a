"""What happened to each phone: one event a change, written in the change's own transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

type EventKind = Literal[
    "drained",
    "undrained",
    "drain-ended",
    "health",
    "allocated",
    "released",
    "lost",
    "answered",
    "forgotten",
]

KEPT_EVENTS = 300
"""So many of each phone; older ones go when newer ones come."""


@dataclass(frozen=True, slots=True)
class Event:
    """One change. `time` in seconds since the epoch; `who` a person, a check or a program."""

    phone: str
    time: float
    kind: EventKind
    who: str
    why: str


def note(database: sqlite3.Connection, events: Sequence[Event]) -> None:
    """Within the transaction that makes the change."""
    rows = [(each.time, each.phone, each.kind, each.who, each.why) for each in events]
    database.executemany(
        "INSERT INTO events (time, phone, kind, who, why) VALUES (?, ?, ?, ?, ?)", rows
    )
    database.executemany(
        "DELETE FROM events WHERE phone = ? AND id <= (SELECT id FROM events WHERE phone = ? "
        "ORDER BY id DESC LIMIT 1 OFFSET ?)",
        [(phone, phone, KEPT_EVENTS) for phone in {each.phone for each in events}],
    )


def read(database: sqlite3.Connection, phone: str) -> list[Event]:
    """The events of one phone, oldest first."""
    rows = database.execute(
        "SELECT phone, time, kind, who, why FROM events WHERE phone = ? ORDER BY id", (phone,)
    )
    return [Event(*row) for row in rows]


def moment_text(moment: float) -> str:
    """A moment by this machine's clock, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
