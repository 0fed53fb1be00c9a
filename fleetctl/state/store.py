"""What the rack file does not know about its phones, safe for several processes at once."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fleetctl.rack.nodesets import same
from fleetctl.state import history, rows
from fleetctl.state.database import Database
from fleetctl.state.errors import Drained, Held
from fleetctl.state.facts import (
    Contact,
    Drain,
    Health,
    Holding,
    Origin,
    PhoneFacts,
    PhoneState,
    Status,
    derive,
)
from fleetctl.state.history import Event


class State:
    """Drains, health, allocation and last contact of the phones of one rack.

    Every call is one transaction, which also writes down what it changed: a process that is
    killed, or a disk that is full, leaves all of it or nothing. `who` acts, else the user of this
    process. Times are seconds since the epoch; `now` is for tests. Everything raises StateError.
    """

    def __init__(self, path: Path, who: str | None = None) -> None:
        self._database = Database(path)
        self._who = who or rows.user()

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
        *,
        until: float | None = None,
    ) -> dict[str, list[Drain]]:
        """Keep `phones` out of new runs; with `until` the drain ends by itself then.

        The same `who` once more replaces the reason. What a person wanted is never cut short by
        that: of two ends the later counts. What a check finds again has been so since it first
        did. Returns the drains that held before.
        """
        moment, names = _time(now), list(phones)
        with self._database.transaction() as database:
            rows.end_drains(database, moment)
            before = rows.drains(database)
            for phone in names:
                own = [d for d in before.get(phone, ()) if (d.who, d.origin) == (who, origin)]
                end = until
                if own and origin == "person":
                    end = (
                        None if until is None or own[0].until is None else max(until, own[0].until)
                    )
                since = own[0].since if own and origin == "check" else moment
                drain = Drain(who, why, origin, since, end)
                rows.put(database, "drains", phone, who, origin, why, since, end)
                # A check that finds the same again is no news; what a person does is.
                if origin == "check" and any(same(d.why, why) for d in own):
                    continue
                told = why if end is None else f"{why} (until {history.moment_text(end)})"
                history.note(database, [Event(phone, moment, "drained", drain.by, told)])
        return {phone: before[phone] for phone in names if phone in before}

    def undrain(
        self, phones: Iterable[str], check: str | None = None, now: float | None = None
    ) -> dict[str, list[Drain]]:
        """Lift all drains of `phones`; a `check` lifts only those that it set itself.

        Returns the drains that were lifted.
        """
        moment, names = _time(now), list(phones)
        lifted: dict[str, list[Drain]] = {}
        with self._database.transaction() as database:
            rows.end_drains(database, moment)
            before = rows.drains(database)
            for phone in names:
                for drain in before.get(phone, ()):
                    if check is None or (drain.origin, drain.who) == ("check", check):
                        database.execute(
                            "DELETE FROM drains WHERE phone = ? AND origin = ? AND who = ?",
                            (phone, drain.origin, drain.who),
                        )
                        told = f"drain by {drain.by}: {drain.why}"
                        who = self._who if check is None else drain.by
                        history.note(database, [Event(phone, moment, "undrained", who, told)])
                        lifted.setdefault(phone, []).append(drain)
        return lifted

    def record_health(
        self,
        phone: str,
        status: Status,
        message: str = "",
        now: float | None = None,
        *,
        who: str | None = None,
    ) -> None:
        """Note how a phone is by the look of `who`."""
        found = Health(status, message, _time(now), who or self._who)
        self.record_healths({phone: found})

    def record_healths(self, healths: Mapping[str, Health]) -> None:
        """`record_health` of many; what is as before but for what was measured is no event, and a
        look that could not tell takes the place of no other."""
        with self._database.transaction() as database:
            before = rows.healths(database)
            for phone, found in healths.items():
                if found.status == "UNKNOWN" and phone in before:
                    continue
                who = found.who or self._who
                rows.put(database, "health", phone, found.status, found.message, found.time, who)
                known = before.get(phone)
                if (
                    known is None
                    or known.status != found.status
                    or not same(known.message, found.message)
                ):
                    told = f"{found.status}: {found.message}" if found.message else found.status
                    history.note(database, [Event(phone, found.time, "health", who, told)])

    def record_contact(
        self,
        answered: Mapping[str, bool],
        now: float | None = None,
        *,
        why: Mapping[str, str | None] | None = None,
        up_seconds: Mapping[str, float | None] | None = None,
    ) -> None:
        """Note which phones answered just now over ssh and which did not, and why not.

        `up_seconds`: for how long phones have been running, where they told.
        """
        moment, reasons, up = _time(now), why or {}, up_seconds or {}
        with self._database.transaction() as database:
            before = rows.contacts(database)
            for phone, reached in answered.items():
                known = before.get(phone, Contact())
                restarted = reached and known.restarted(moment, up.get(phone))
                after = known.after(reached, moment, reasons.get(phone), up.get(phone))
                rows.put(database, "contacts", phone, *astuple(after))
                kind = _contact_event(known, after)
                if kind is None and restarted:
                    kind = "answered"
                if kind:
                    told = "after a restart" if restarted else ""
                    told = after.why or "" if kind == "lost" else told
                    history.note(database, [Event(phone, moment, kind, self._who, told)])

    def record_adb(self, answered: Mapping[str, bool], now: float | None = None) -> None:
        """Note which phones answered just now over adb and which did not."""
        with self._database.transaction() as database:
            for phone, yes in answered.items():
                rows.put(database, "adb_tries", phone, _time(now), yes)

    def forget_adb(self, phones: Iterable[str]) -> None:
        """Drop what adb said of phones that it has been closed on: its silence says nothing now."""
        with self._database.transaction() as database:
            for phone in phones:
                database.execute("DELETE FROM adb_tries WHERE phone = ?", (phone,))

    def record_revocations(self, seen: Mapping[str, int]) -> None:
        """Note with which version of the list of revoked keys phones were seen."""
        with self._database.transaction() as database:
            for phone, version in seen.items():
                rows.put(database, "revocations", phone, version)

    def wanted_revocations(self) -> int:
        """Version of the list of revoked keys that every phone shall have; 0 is an empty list."""
        with self._database.transaction("DEFERRED") as database:
            (version,) = database.execute("SELECT version FROM wanted_revocations").fetchone()
        return int(version)

    def want_revocations(self, version: int) -> None:
        """The version of the list of revoked keys that every phone shall have."""
        with self._database.transaction() as database:
            database.execute("UPDATE wanted_revocations SET version = ?", (version,))

    def record_facts(
        self, facts: Mapping[str, Mapping[str, Any]], now: float | None = None
    ) -> None:
        """Keep what phones said about themselves; what they said before goes."""
        moment = _time(now)
        with self._database.transaction() as database:
            for phone, said in facts.items():
                rows.put(database, "facts", phone, moment, json.dumps(said))

    def facts(self) -> dict[str, tuple[float, dict[str, Any]]]:
        """What each phone last said about itself, and when."""
        with self._database.transaction("DEFERRED") as database:
            found = database.execute("SELECT phone, time, facts FROM facts").fetchall()
        return {phone: (moment, json.loads(said)) for phone, moment, said in found}

    def record_holdings(self, holdings: Iterable[Holding]) -> None:
        """Note what phones hold of data sets; a phone with no file of one is struck out."""
        with self._database.transaction() as database:
            for each in holdings:
                database.execute(
                    "DELETE FROM holdings WHERE phone = ? AND data = ?", (each.phone, each.data)
                )
                if each.files:
                    rows.put(database, "holdings", *astuple(each))

    def holdings(self) -> list[Holding]:
        """What phones held of data sets when they were last asked, by data set and phone."""
        with self._database.transaction("DEFERRED") as database:
            found = database.execute("SELECT * FROM holdings ORDER BY data, phone").fetchall()
        return [Holding(*row) for row in found]

    def forget(
        self, phones: Iterable[str], *, keep_drains: bool = False, now: float | None = None
    ) -> None:
        """Drop all that is known of `phones`, but for their history: others will bear their names.

        Raises Held.
        """
        names, moment = list(phones), _time(now)
        tables = ["health", "contacts", "adb_tries", "revocations", "facts", "holdings"]
        tables += [] if keep_drains else ["drains"]
        with self._database.transaction() as database:
            holders = {phone: held.run for phone, held in rows.allocations(database).items()}
            if held := {phone: holders[phone] for phone in names if phone in holders}:
                raise Held(held)
            for table in tables:
                database.executemany(
                    f"DELETE FROM {table} WHERE phone = ?",  # noqa: S608  names of ours
                    [(phone,) for phone in names],
                )
            told = "its phone left this place" + (", drains stay" if keep_drains else "")
            history.note(
                database, [Event(phone, moment, "forgotten", self._who, told) for phone in names]
            )

    def allocate(
        self,
        run: str,
        phones: Collection[str],
        now: float | None = None,
        *,
        who: str | None = None,
        why: str = "",
    ) -> None:
        """Give all `phones` to `run`, or none of them: raises Held or Drained."""
        moment, actor = _time(now), who or self._who
        with self._database.transaction() as database:
            rows.end_drains(database, moment)
            known = rows.allocations(database)
            held = {phone: known[phone].run for phone in phones if phone in known}
            if taken := {phone: holder for phone, holder in held.items() if holder != run}:
                raise Held(taken)
            drains = rows.drains(database)
            drained = {phone: drains[phone][0] for phone in phones if phone in drains}
            if drained:
                raise Drained(drained)
            for phone in phones:
                if phone not in held:
                    rows.put(database, "allocations", phone, run, moment, actor, why or None)
                    told = f"to run {run}" + (f": {why}" if why else "")
                    history.note(database, [Event(phone, moment, "allocated", actor, told)])

    def release(
        self,
        run: str,
        now: float | None = None,
        *,
        phones: Iterable[str] | None = None,
        why: str = "",
    ) -> None:
        """Give back all phones of `run`, or only those of `phones` that it holds."""
        moment, only = _time(now), None if phones is None else set(phones)
        with self._database.transaction() as database:
            mine = [
                phone
                for phone, held in rows.allocations(database).items()
                if held.run == run and (only is None or phone in only)
            ]
            database.executemany(
                "DELETE FROM allocations WHERE phone = ?", [(phone,) for phone in mine]
            )
            told = f"by run {run}" + (f": {why}" if why else "")
            history.note(
                database, [Event(phone, moment, "released", self._who, told) for phone in mine]
            )

    def phones(self, now: float | None = None) -> dict[str, PhoneFacts]:
        """Facts by phone; a phone that is not in here has none yet (`PhoneFacts()`).

        A drain whose time is over is not among them.
        """
        with self._database.transaction("DEFERRED") as database:
            drains, contacts = rows.drains(database, _time(now)), rows.contacts(database)
            allocations, healths = rows.allocations(database), rows.healths(database)
            adb, revocations = rows.adb_tries(database), rows.revocations(database)
        names = {*drains, *contacts, *allocations, *healths, *adb, *revocations}
        return {
            name: PhoneFacts(
                drains=tuple(drains.get(name, ())),
                health=healths.get(name),
                run=held.run if (held := allocations.get(name)) else None,
                contact=contacts.get(name, Contact()),
                adb=adb.get(name),
                revocations=revocations.get(name),
                allocation=held,
            )
            for name in sorted(names)
        }

    def history(self, phone: str, now: float | None = None) -> list[Event]:
        """What happened to a phone, oldest first; a drain that has ended by itself among it."""
        with self._database.transaction("DEFERRED") as database:
            events = history.read(database, phone) + rows.ended(database, phone, _time(now))
        return sorted(events, key=lambda event: event.time)

    def groups(
        self, now: float | None = None, *, phones: Iterable[str] = ()
    ) -> dict[str, list[str]]:
        """Node groups that the state makes, of `phones` of which nothing is known too. `drained`
        holds draining phones as well, `lost` those that need hands; `busy` are all that work for a
        run."""
        moment = _time(now)
        facts = dict.fromkeys(phones, PhoneFacts()) | self.phones(moment)
        states = {name: derive(fact, moment) for name, fact in facts.items()}

        def members(*wanted: PhoneState) -> list[str]:
            return [name for name, state in states.items() if state in wanted]

        return {
            "ready": members("ready"),
            "busy": [name for name, fact in facts.items() if fact.run],
            "drained": members("drained", "draining"),
            "suspect": members("suspect"),
            "lost": members("lost", "needs-hands"),
            "needs-hands": members("needs-hands"),
        }


def _time(now: float | None) -> float:
    return time.time() if now is None else now


def _contact_event(before: Contact, after: Contact) -> history.EventKind | None:
    """Only what changes is worth to be kept: phones are asked all day."""
    if after.missed_since is not None:
        return "lost" if before.missed_since is None else None
    return "answered" if before.missed_since is not None or before.seen is None else None
