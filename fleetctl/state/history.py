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

_STORIES: tuple[tuple[EventKind, ...], ...] = (
    ("drained", "undrained", "drain-ended", "forgotten"),
    ("allocated", "released"),
    ("lost", "answered"),
    ("health",),
)
KEPT_EVENTS = 150
"""So many of each of a phone's stories; older ones go when newer ones of the same come: a link that
comes and goes all night does not wash away why somebody drained the phone."""


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
    for phone, story in {(each.phone, _story(each.kind)) for each in events}:
        kinds = ", ".join("?" * len(story))
        of_story = f"phone = ? AND kind IN ({kinds})"
        database.execute(
            f"DELETE FROM events WHERE {of_story} AND id <= (SELECT id FROM events "  # noqa: S608
            f"WHERE {of_story} ORDER BY id DESC LIMIT 1 OFFSET ?)",
            (phone, *story, phone, *story, KEPT_EVENTS),
        )


def read(database: sqlite3.Connection, phone: str) -> list[Event]:
    """The events of one phone, oldest first."""
    rows = database.execute(
        "SELECT phone, time, kind, who, why FROM events WHERE phone = ? ORDER BY id", (phone,)
    )
    return [Event(*row) for row in rows]


def _story(kind: EventKind) -> tuple[EventKind, ...]:
    return next(story for story in _STORIES if kind in story)


def moment_text(moment: float) -> str:
    """A moment by this machine's clock, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
