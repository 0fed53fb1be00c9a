"""Rows of the state database as facts, and back, within a transaction of the caller's."""

from __future__ import annotations

import getpass
import os
import sqlite3

from fleetctl.state import history
from fleetctl.state.facts import AdbTry, Allocation, Contact, Drain, Health, Revocations
from fleetctl.state.history import Event

_DRAINS = "SELECT phone, who, why, origin, since, until FROM drains"


def put(database: sqlite3.Connection, table: str, *row: object) -> None:
    """Insert or replace a row; the table's name is ours."""
    places = ", ".join("?" * len(row))
    database.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", row)  # noqa: S608


def drains(database: sqlite3.Connection, now: float | None = None) -> dict[str, list[Drain]]:
    """By phone, oldest first; with `now`, those that hold then."""
    found: dict[str, list[Drain]] = {}
    for phone, *rest in database.execute(f"{_DRAINS} ORDER BY since, origin DESC, who"):
        drain = Drain(*rest)
        if now is None or drain.holds(now):
            found.setdefault(phone, []).append(drain)
    return found


def end_drains(database: sqlite3.Connection, now: float) -> None:
    """Strike out the drains whose time is over. They count as ended anyhow: nobody has to be there
    at that moment."""
    for phone, *rest in database.execute(f"{_DRAINS} WHERE until <= ?", (now,)).fetchall():
        history.note(database, [_end(phone, Drain(*rest))])
    database.execute("DELETE FROM drains WHERE until <= ?", (now,))


def ended(database: sqlite3.Connection, phone: str, now: float) -> list[Event]:
    """The events that `end_drains` would note for a phone."""
    found = database.execute(f"{_DRAINS} WHERE until <= ? AND phone = ?", (now, phone))
    return [_end(name, Drain(*rest)) for name, *rest in found]


def _end(phone: str, drain: Drain) -> Event:
    told = f"drain by {drain.by}: {drain.why}"
    return Event(phone, drain.until or 0.0, "drain-ended", drain.by, told)


def contacts(database: sqlite3.Connection) -> dict[str, Contact]:
    found = database.execute("SELECT phone, seen, missed_since, returned, why FROM contacts")
    return {phone: Contact(*rest) for phone, *rest in found}


def healths(database: sqlite3.Connection) -> dict[str, Health]:
    found = database.execute("SELECT phone, status, message, time, who FROM health")
    return {phone: Health(*rest) for phone, *rest in found}


def allocations(database: sqlite3.Connection) -> dict[str, Allocation]:
    found = database.execute("SELECT phone, run, since, who, why FROM allocations")
    return {phone: Allocation(*rest) for phone, *rest in found}


def adb_tries(database: sqlite3.Connection) -> dict[str, AdbTry]:
    found = database.execute("SELECT phone, time, answered FROM adb_tries")
    return {phone: AdbTry(moment, bool(answered)) for phone, moment, answered in found}


def revocations(database: sqlite3.Connection) -> dict[str, Revocations]:
    found = database.execute("SELECT phone, seen, version FROM revocations, wanted_revocations")
    return {phone: Revocations(seen, wanted) for phone, seen, wanted in found}


def user() -> str:
    """Who is at it, for the record: whoever became root for it by sudo or doas; a number where the
    machine has no name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
    if name == "root":
        return os.environ.get("SUDO_USER") or os.environ.get("DOAS_USER") or name
    return name
