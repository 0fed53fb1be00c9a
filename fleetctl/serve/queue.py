"""The queue's database: SQLite in the rack's folder, safe for several processes at once.

A row is a job that is not over: it waits, or it was given phones. What it is lies in its run
folder (`job.yml`, `files/`), which is there before the row is; how it ended stays there too.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from fleetctl.errors import ExitCode, FleetError
from fleetctl.jobs.limit import FINISH_SECONDS
from fleetctl.rack import InputError
from fleetctl.rack.files import is_full
from fleetctl.serve.decide import Waiting

_SCHEMA_1 = """
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, arrived REAL NOT NULL,
    who TEXT NOT NULL, priority INTEGER NOT NULL, least INTEGER NOT NULL, most INTEGER,
    spares INTEGER NOT NULL, among TEXT NOT NULL, limit_seconds REAL, resume TEXT,
    tries INTEGER NOT NULL DEFAULT 0, not_before REAL NOT NULL DEFAULT 0, trouble TEXT,
    phones TEXT, given REAL);
"""

_SCHEMA_2 = "ALTER TABLE jobs ADD COLUMN promised REAL NOT NULL DEFAULT 0"

_SCHEMA_3 = "ALTER TABLE jobs ADD COLUMN ranks INTEGER"

_MIGRATIONS = (_SCHEMA_1, _SCHEMA_2, _SCHEMA_3)
SCHEMA_VERSION = len(_MIGRATIONS)

LATE_SECONDS = 60.0 + FINISH_SECONDS
"""How long after its time limit a job may still have its phones: the limit counts from when it has
passed preflight, and it may take its time to end."""

_BUSY_SECONDS = 20.0
_COLUMNS = (
    "number, name, arrived, who, priority, least, most, spares, among, limit_seconds, resume, "
    "tries, not_before, trouble, phones, given, promised, ranks"
)


class QueueError(FleetError):
    """The queue's database cannot be used."""


class NotWaiting(FleetError):
    """A job is not in the queue, or not any more."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_INPUT


@dataclass(frozen=True, slots=True)
class Entry:
    """A job in the queue. Times are seconds since the epoch; `given`: when it got `phones`."""

    number: int
    name: str
    arrived: float
    who: str
    priority: int = 0
    least: int = 1
    most: int | None = None
    spares: int = 0
    among: tuple[str, ...] = ()
    limit_seconds: float | None = None
    resume: str | None = None
    """The run that it goes on from."""
    tries: int = 0
    """Starts that failed."""
    not_before: float = 0.0
    trouble: str | None = None
    """What the last of them failed with."""
    phones: tuple[str, ...] = ()
    given: float | None = None
    promised: float = 0.0
    """When it last was the first that waited, with phones enough that serve."""
    ranks: int | None = None
    """So many of `phones`, the first, were chosen to train; the others are spares. None where an
    older version has given them."""

    @property
    def waits(self) -> bool:
        return self.given is None

    def waiting(self) -> Waiting:
        """What a decision asks of it."""
        return Waiting(
            name=self.name,
            number=self.number,
            arrived=self.arrived,
            priority=self.priority,
            least=self.least,
            most=self.most,
            spares=self.spares,
            among=self.among,
            limit_seconds=self.limit_seconds and self.limit_seconds + LATE_SECONDS,
            not_before=self.not_before,
            trouble=self.trouble,
            promised=self.promised,
        )


def names_of(entries: Iterable[Entry]) -> set[str]:
    """The runs that the queue needs: of its jobs, and those that they go on from."""
    return {name for entry in entries for name in (entry.name, entry.resume) if name}


class Queue:
    """Jobs that are not over, in the order in which they came. Every call is one transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
            self._prepare()
        except sqlite3.DatabaseError as problem:
            raise QueueError(f"{path}: {problem}; {_cure(problem, path)}") from problem

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def add(self, entry: Entry) -> int:
        """Put a job at the end; its number is given here. Raises InputError for a name twice."""
        with self._transaction() as database:
            if database.execute("SELECT 1 FROM jobs WHERE name = ?", (entry.name,)).fetchone():
                raise InputError(f"a job {entry.name} is in the queue already; choose another name")
            cursor = database.execute(
                "INSERT INTO jobs (name, arrived, who, priority, least, most, spares, among, "
                "limit_seconds, resume) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(entry.name, entry.arrived, entry.who, entry.priority, entry.least),
                    *(entry.most, entry.spares, json.dumps(entry.among), entry.limit_seconds),
                    entry.resume,
                ),
            )
            return int(cursor.lastrowid or 0)

    def jobs(self) -> list[Entry]:
        """All jobs that are not over, in the order of their arrival."""
        with self._transaction("DEFERRED") as database:
            rows = database.execute(f"SELECT {_COLUMNS} FROM jobs ORDER BY number").fetchall()  # noqa: S608
        return [_entry(row) for row in rows]

    def get(self, name: str) -> Entry | None:
        with self._transaction("DEFERRED") as database:
            row = database.execute(
                f"SELECT {_COLUMNS} FROM jobs WHERE name = ?",  # noqa: S608  columns of ours
                (name,),
            ).fetchone()
        return _entry(row) if row else None

    def give(
        self,
        name: str,
        phones: Iterable[str],
        now: float | None = None,
        *,
        spares: Iterable[str] = (),
    ) -> bool:
        """Note that the job gets these phones; False if it was taken out in the meantime."""
        moment, train = time.time() if now is None else now, tuple(phones)
        with self._transaction() as database:
            cursor = database.execute(
                "UPDATE jobs SET phones = ?, ranks = ?, given = ? WHERE name = ? AND given IS NULL",
                (json.dumps((*train, *spares)), len(train), moment, name),
            )
            return cursor.rowcount == 1

    def promise(self, name: str, now: float) -> None:
        """Note that it was the first that waited, with phones enough that serve."""
        with self._transaction() as database:
            database.execute("UPDATE jobs SET promised = ? WHERE name = ?", (now, name))

    def take_back(self, name: str, trouble: str, not_before: float) -> None:
        """Its start failed: it waits again, at its old place, and not before that moment."""
        with self._transaction() as database:
            database.execute(
                "UPDATE jobs SET phones = NULL, ranks = NULL, given = NULL, trouble = ?, "
                "not_before = ?, tries = tries + 1 WHERE name = ? AND given IS NOT NULL",
                (trouble, not_before, name),
            )

    def take_out(self, name: str) -> None:
        """A person does not want it any more. Raises NotWaiting once it was given phones."""
        with self._transaction() as database:
            cursor = database.execute("DELETE FROM jobs WHERE name = ? AND given IS NULL", (name,))
            if cursor.rowcount == 0:
                raise NotWaiting(f"{name} does not wait in the queue any more; see `fleetctl jobs`")

    def remove(self, name: str) -> None:
        """It is over; how it ended is in its run folder."""
        with self._transaction() as database:
            database.execute("DELETE FROM jobs WHERE name = ?", (name,))

    def _prepare(self) -> None:
        if self._version() == SCHEMA_VERSION:
            return
        self._database.execute("PRAGMA journal_mode = WAL")
        with self._transaction() as database:
            version = self._version()
            for migration in _MIGRATIONS[version:]:
                for statement in migration.split(";"):
                    database.execute(statement)
            if version < SCHEMA_VERSION:
                database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _version(self) -> int:
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise QueueError(
                f"{self._path}: version {version} is newer than {SCHEMA_VERSION}, "
                "the newest that this fleetctl knows; update phonerack"
            )
        return int(version)

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """All or nothing; see State, which does the same for the phones."""
        database = self._database
        try:
            database.execute(f"BEGIN {kind}")
            yield database
            database.execute("COMMIT")
        except sqlite3.DatabaseError as problem:
            raise QueueError(f"{self._path}: {problem}; {_cure(problem, self._path)}") from problem
        finally:
            if database.in_transaction:
                database.execute("ROLLBACK")


def _entry(row: tuple[Any, ...]) -> Entry:
    (number, name, arrived, who, priority, least, most, spares, among, *rest) = row
    (limit_seconds, resume, tries, not_before, trouble, phones, given, promised, ranks) = rest
    return Entry(
        *(number, name, arrived, who, priority, least, most, spares),
        tuple(json.loads(among)) if among != "[]" else (),
        *(limit_seconds, resume, tries, not_before, trouble),
        tuple(json.loads(phones)) if phones else (),
        given,
        promised,
        ranks,
    )


def _cure(problem: sqlite3.DatabaseError, path: Path) -> str:
    if isinstance(problem, sqlite3.OperationalError):
        if is_full(path.parent):
            return "its disk is full: free some space and do it again"
        return "check the free space and the owner of its folder"
    return "it is damaged: move it away, and queue the jobs of its waiting run folders anew"
