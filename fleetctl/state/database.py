"""The state's file: opened by many processes at once, written in transactions only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetctl.rack.files import is_full
from fleetctl.state import schema
from fleetctl.state.errors import StateError

_BUSY_SECONDS = 20.0


class Database:
    """One connection to the file. Raises StateError: damaged, newer, no room, no right."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
            self._prepare()
        except sqlite3.DatabaseError as problem:
            raise self._explained(problem) from problem

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """All or nothing, whatever happens to this process. IMMEDIATE holds the write lock from
        the start and cannot fail late; DEFERRED reads one consistent moment and disturbs nobody.
        """
        connection = self._connection
        try:
            connection.execute(f"BEGIN {kind}")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as problem:
            raise self._explained(problem) from problem
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _prepare(self) -> None:
        """A file that is as it should be is only read here, so that nobody waits for a writer."""
        self._refuse_newer()
        (mode,) = self._connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            self._connection.execute("PRAGMA journal_mode = WAL")
        if schema.version(self._connection) < schema.SCHEMA_VERSION:
            with self.transaction() as connection:
                self._refuse_newer()
                schema.bring_up_to_date(connection)

    def _refuse_newer(self) -> None:
        version = schema.version(self._connection)
        if version > schema.SCHEMA_VERSION:
            raise StateError(
                f"{self._path}: version {version} is newer than {schema.SCHEMA_VERSION}, "
                "the newest that this fleetctl knows; update phonerack"
            )

    def _explained(self, problem: sqlite3.DatabaseError) -> StateError:
        return StateError(f"{self._path}: {problem}; {_cure(problem, self._path)}")


def _cure(problem: sqlite3.DatabaseError, path: Path) -> str:
    if isinstance(problem, sqlite3.OperationalError):
        if is_full(path.parent):
            return "its disk is full: free some space and do it again"
        if "locked" in str(problem):
            return "another fleetctl has been writing for long: look for one that hangs"
        return "check the free space and the owner of its folder"
    return "it is damaged: move it away to start anew (drains are lost)"
