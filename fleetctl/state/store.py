"""The state database: SQLite, safe for several processes at once."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from fleetctl.errors import ExitCode, FleetError
from fleetctl.rack.files import is_full
from fleetctl.state.facts import (
    AdbTry,
    Contact,
    Drain,
    Health,
    Holding,
    Origin,
    PhoneFacts,
    PhoneState,
    Revocations,
    Status,
    derive,
)

_SCHEMA_1 = """
CREATE TABLE drains (
    phone TEXT NOT NULL, who TEXT NOT NULL, origin TEXT NOT NULL, why TEXT NOT NULL,
    since REAL NOT NULL, PRIMARY KEY (phone, origin, who));
CREATE TABLE health (
    phone TEXT PRIMARY KEY, status TEXT NOT NULL, message TEXT NOT NULL, time REAL NOT NULL);
CREATE TABLE contacts (
    phone TEXT PRIMARY KEY, seen REAL, missed_since REAL, returned REAL);
CREATE TABLE allocations (
    phone TEXT PRIMARY KEY, run TEXT NOT NULL, since REAL NOT NULL);
"""

_SCHEMA_2 = """
ALTER TABLE contacts ADD COLUMN why TEXT;
CREATE TABLE adb_tries (
    phone TEXT PRIMARY KEY, time REAL NOT NULL, answered INTEGER NOT NULL);
CREATE TABLE revocations (phone TEXT PRIMARY KEY, seen INTEGER NOT NULL);
CREATE TABLE wanted_revocations (version INTEGER NOT NULL);
INSERT INTO wanted_revocations VALUES (0);
"""

_SCHEMA_3 = """
CREATE TABLE facts (phone TEXT PRIMARY KEY, time REAL NOT NULL, facts TEXT NOT NULL);
"""

_SCHEMA_4 = """
CREATE TABLE holdings (
    phone TEXT NOT NULL, data TEXT NOT NULL, manifest TEXT NOT NULL, files INTEGER NOT NULL,
    of_files INTEGER NOT NULL, time REAL NOT NULL, PRIMARY KEY (phone, data));
"""

_MIGRATIONS = (_SCHEMA_1, _SCHEMA_2, _SCHEMA_3, _SCHEMA_4)
"""Statements that lead from each version of the database to the next; the first makes it."""

SCHEMA_VERSION = len(_MIGRATIONS)

_BUSY_SECONDS = 20.0


class StateError(FleetError):
    """The state database cannot be used."""


class Held(FleetError):
    """Phones belong to other runs; `holders` maps each to its run."""

    exit_code: ClassVar[ExitCode] = ExitCode.HELD

    def __init__(self, holders: Mapping[str, str]) -> None:
        self.holders = dict(holders)
        held = ", ".join(f"{phone} by run {run}" for phone, run in self.holders.items())
        super().__init__(
            f"held: {held}; choose other phones, or `fleetctl stop {next(iter(holders.values()))}`"
        )


class Drained(FleetError):
    """Phones are drained; `drains` maps each to one of its drains."""

    exit_code: ClassVar[ExitCode] = ExitCode.PREFLIGHT_REFUSED

    def __init__(self, drains: Mapping[str, Drain]) -> None:
        self.drains = dict(drains)
        reasons = ", ".join(
            f"{phone} by {drain.who} ({drain.why})" for phone, drain in self.drains.items()
        )
        super().__init__(f"drained: {reasons}; choose other phones, or `fleetctl undrain` them")


class State:
    """Drains, health, allocation and last contact of the phones of one rack.

    Every call is one transaction. Times are seconds since the epoch; `now` is for tests.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
            self._prepare()
        except sqlite3.DatabaseError as problem:
            raise StateError(f"{path}: {problem}; {_cure(problem, path)}") from problem

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

    def drain(
        self,
        phones: Iterable[str],
        who: str,
        why: str,
        origin: Origin = "person",
        now: float | None = None,
    ) -> None:
        """Keep `phones` out of new runs. The same `who` once more replaces the reason."""
        since = _time(now)
        rows = [(phone, who, origin, why, since) for phone in phones]
        with self._transaction() as database:
            database.executemany("INSERT OR REPLACE INTO drains VALUES (?, ?, ?, ?, ?)", rows)

    def undrain(self, phones: Iterable[str], check: str | None = None) -> list[str]:
        """Lift all drains of `phones`; a `check` lifts only those that it set itself.

        Returns the phones that have no drain left.
        """
        names = list(phones)
        with self._transaction() as database:
            for phone in names:
                if check is None:
                    database.execute("DELETE FROM drains WHERE phone = ?", (phone,))
                else:
                    database.execute(
                        "DELETE FROM drains WHERE phone = ? AND origin = 'check' AND who = ?",
                        (phone, check),
                    )
            still = {phone for (phone,) in database.execute("SELECT phone FROM drains")}
        return [phone for phone in names if phone not in still]

    def record_health(
        self, phone: str, status: Status, message: str = "", now: float | None = None
    ) -> None:
        with self._transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO health VALUES (?, ?, ?, ?)",
                (phone, status, message, _time(now)),
            )

    def record_contact(
        self,
        answered: Mapping[str, bool],
        now: float | None = None,
        *,
        why: Mapping[str, str | None] | None = None,
    ) -> None:
        """Note which phones answered just now over ssh and which did not, and why not."""
        moment, reasons = _time(now), why or {}
        with self._transaction() as database:
            before = _contacts(database)
            for phone, reached in answered.items():
                known = before.get(phone, Contact())
                after = known.after(reached, moment, reasons.get(phone))
                database.execute(
                    "INSERT OR REPLACE INTO contacts VALUES (?, ?, ?, ?, ?)",
                    (phone, after.seen, after.missed_since, after.returned, after.why),
                )

    def record_adb(self, answered: Mapping[str, bool], now: float | None = None) -> None:
        """Note which phones answered just now over adb and which did not."""
        rows = [(phone, _time(now), yes) for phone, yes in answered.items()]
        with self._transaction() as database:
            database.executemany("INSERT OR REPLACE INTO adb_tries VALUES (?, ?, ?)", rows)

    def record_revocations(self, seen: Mapping[str, int]) -> None:
        """Note with which version of the list of revoked keys phones were seen."""
        with self._transaction() as database:
            database.executemany(
                "INSERT OR REPLACE INTO revocations VALUES (?, ?)", list(seen.items())
            )

    def wanted_revocations(self) -> int:
        """Version of the list of revoked keys that every phone shall have; 0 is an empty list."""
        with self._transaction("DEFERRED") as database:
            (version,) = database.execute("SELECT version FROM wanted_revocations").fetchone()
        return int(version)

    def want_revocations(self, version: int) -> None:
        """The version of the list of revoked keys that every phone shall have."""
        with self._transaction() as database:
            database.execute("UPDATE wanted_revocations SET version = ?", (version,))

    def record_facts(
        self, facts: Mapping[str, Mapping[str, Any]], now: float | None = None
    ) -> None:
        """Keep what phones said about themselves; what they said before goes."""
        moment = _time(now)
        rows = [(phone, moment, json.dumps(said)) for phone, said in facts.items()]
        with self._transaction() as database:
            database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", rows)

    def facts(self) -> dict[str, tuple[float, dict[str, Any]]]:
        """What each phone last said about itself, and when."""
        with self._transaction("DEFERRED") as database:
            rows = database.execute("SELECT phone, time, facts FROM facts").fetchall()
        return {phone: (moment, json.loads(said)) for phone, moment, said in rows}

    def record_holdings(self, holdings: Iterable[Holding]) -> None:
        """Note what phones hold of data sets; a phone with no file of one is struck out."""
        with self._transaction() as database:
            for each in holdings:
                database.execute(
                    "DELETE FROM holdings WHERE phone = ? AND data = ?", (each.phone, each.data)
                )
                if each.files:
                    row = astuple(each)
                    database.execute("INSERT INTO holdings VALUES (?, ?, ?, ?, ?, ?)", row)

    def holdings(self) -> list[Holding]:
        """What phones held of data sets when they were last asked, by data set and phone."""
        with self._transaction("DEFERRED") as database:
            rows = database.execute("SELECT * FROM holdings ORDER BY data, phone").fetchall()
        return [Holding(*row) for row in rows]

    def forget(self, phones: Iterable[str], *, keep_drains: bool = False) -> None:
        """Drop all that is known of `phones`: others will bear their names. Raises Held."""
        names = list(phones)
        tables = ["health", "contacts", "adb_tries", "revocations", "facts", "holdings"]
        tables += [] if keep_drains else ["drains"]
        with self._transaction() as database:
            holders = dict(database.execute("SELECT phone, run FROM allocations"))
            if held := {phone: holders[phone] for phone in names if phone in holders}:
                raise Held(held)
            for table in tables:
                database.executemany(
                    f"DELETE FROM {table} WHERE phone = ?",  # noqa: S608  names of ours
                    [(phone,) for phone in names],
                )

    def allocate(self, run: str, phones: Collection[str], now: float | None = None) -> None:
        """Give all `phones` to `run`, or none of them: raises Held or Drained."""
        since = _time(now)
        with self._transaction() as database:
            holders = dict(database.execute("SELECT phone, run FROM allocations"))
            held = {phone: holders[phone] for phone in phones if holders.get(phone, run) != run}
            if held:
                raise Held(held)
            drains = _drains(database)
            drained = {phone: drains[phone][0] for phone in phones if phone in drains}
            if drained:
                raise Drained(drained)
            database.executemany(
                "INSERT OR REPLACE INTO allocations VALUES (?, ?, ?)",
                [(phone, run, since) for phone in phones],
            )

    def release(self, run: str, *, phones: Iterable[str] | None = None) -> None:
        """Give back all phones of `run`, or only those of `phones` that it holds."""
        with self._transaction() as database:
            if phones is None:
                database.execute("DELETE FROM allocations WHERE run = ?", (run,))
            else:
                database.executemany(
                    "DELETE FROM allocations WHERE run = ? AND phone = ?",
                    [(run, phone) for phone in phones],
                )

    def phones(self) -> dict[str, PhoneFacts]:
        """Facts by phone; a phone that is not in here has none yet (`PhoneFacts()`)."""
        with self._transaction("DEFERRED") as database:
            drains, contacts = _drains(database), _contacts(database)
            runs = dict(database.execute("SELECT phone, run FROM allocations"))
            health = {
                phone: Health(*rest)
                for phone, *rest in database.execute(
                    "SELECT phone, status, message, time FROM health"
                )
            }
            adb = {
                phone: AdbTry(moment, bool(answered))
                for phone, moment, answered in database.execute(
                    "SELECT phone, time, answered FROM adb_tries"
                )
            }
            revocations = {
                phone: Revocations(seen, wanted)
                for phone, seen, wanted in database.execute(
                    "SELECT phone, seen, version FROM revocations, wanted_revocations"
                )
            }
        names = {*drains, *contacts, *runs, *health, *adb, *revocations}
        return {
            name: PhoneFacts(
                drains=tuple(drains.get(name, ())),
                health=health.get(name),
                run=runs.get(name),
                contact=contacts.get(name, Contact()),
                adb=adb.get(name),
                revocations=revocations.get(name),
            )
            for name in sorted(names)
        }

    def groups(self, now: float | None = None) -> dict[str, list[str]]:
        """Node groups that the state makes. `drained` holds draining phones too,
        `lost` those that need hands."""
        moment, facts = _time(now), self.phones()
        states = {name: derive(fact, moment) for name, fact in facts.items()}

        def members(*wanted: PhoneState) -> list[str]:
            return [name for name, state in states.items() if state in wanted]

        return {
            "drained": members("drained", "draining"),
            "suspect": members("suspect"),
            "lost": members("lost", "needs-hands"),
            "needs-hands": members("needs-hands"),
        }

    def _prepare(self) -> None:
        self._database.execute("PRAGMA journal_mode = WAL")
        with self._transaction() as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA_VERSION:
                raise StateError(
                    f"{self._path}: version {version} is newer than {SCHEMA_VERSION}, "
                    "the newest that this fleetctl knows; update phonerack"
                )
            for migration in _MIGRATIONS[version:]:
                for statement in migration.split(";"):
                    database.execute(statement)
            if version < SCHEMA_VERSION:
                database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """All or nothing. IMMEDIATE holds the write lock from the start and cannot fail late;
        DEFERRED reads one consistent moment and disturbs no writer."""
        database = self._database
        try:
            database.execute(f"BEGIN {kind}")
            yield database
            database.execute("COMMIT")
        except sqlite3.DatabaseError as problem:
            raise StateError(f"{self._path}: {problem}; {_cure(problem, self._path)}") from problem
        finally:
            if database.in_transaction:
                database.execute("ROLLBACK")


def _cure(problem: sqlite3.DatabaseError, path: Path) -> str:
    if isinstance(problem, sqlite3.OperationalError):
        if is_full(path.parent):
            return "its disk is full: free some space and do it again"
        return "check the free space and the owner of its folder"
    return "it is damaged: move it away to start anew (drains are lost)"


def _time(now: float | None) -> float:
    return time.time() if now is None else now


def _drains(database: sqlite3.Connection) -> dict[str, list[Drain]]:
    found: dict[str, list[Drain]] = {}
    for phone, *rest in database.execute(
        "SELECT phone, who, why, origin, since FROM drains ORDER BY since, origin DESC, who"
    ):
        found.setdefault(phone, []).append(Drain(*rest))
    return found


def _contacts(database: sqlite3.Connection) -> dict[str, Contact]:
    rows = database.execute("SELECT phone, seen, missed_since, returned, why FROM contacts")
    return {phone: Contact(*rest) for phone, *rest in rows}
