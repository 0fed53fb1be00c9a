"""Whatever happens in whatever order: no drain of a person is lost, and no reboot makes ready."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Literal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from fleetctl.state import Drained, Event, Held, PhoneFacts, State, derive
from fleetctl.state.facts import PhoneState

PHONES = ("phone001", "phone002")
phones = st.sampled_from(PHONES)
people = st.sampled_from(["ann", "bob"])
checks = st.sampled_from(["ann", "temperature", "link"])
"""A check may be called like a person."""
runs = st.sampled_from(["run-1", "run-2"])
spans = st.none() | st.sampled_from([1.0, 5.0, 50.0])
type Key = tuple[str, Literal["person", "check"], str]


class Fleet(RuleBasedStateMachine):
    """The state beside a model of it: which drains hold until when, who holds which phone."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.now = 1000.0
        self.drains: dict[Key, float | None] = {}
        self.holders: dict[str, str] = {}
        self.needs_look: set[str] = set()
        """Phones that were away since the last good look at them."""
        self.met = set(PHONES)
        self.missing: set[str] = set()

    @initialize()
    def start(self) -> None:
        self.state = State(self.folder / "state.db", who="operator")
        self.state.record_contact(dict.fromkeys(PHONES, True), self.now)

    def teardown(self) -> None:
        if hasattr(self, "state"):
            self.state.close()
        shutil.rmtree(self.folder)

    def holding(self, phone: str) -> list[Key]:
        return [
            key
            for key, until in self.drains.items()
            if key[0] == phone and (until is None or self.now < until)
        ]

    def seen(self, phone: str) -> PhoneState:
        facts = self.state.phones(self.now).get(phone, PhoneFacts())
        return derive(facts, self.now)

    @rule(seconds=st.sampled_from([0.5, 4.0, 60.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.now += seconds

    @rule(phone=phones, who=people, span=spans)
    def person_drains(self, phone: str, who: str, span: float | None) -> None:
        until = None if span is None else self.now + span
        key: Key = (phone, "person", who)
        if key in self.holding(phone):
            before = self.drains[key]
            until = None if until is None or before is None else max(until, before)
        self.state.drain(
            [phone],
            who,
            "a reason",
            now=self.now,
            until=None if span is None else self.now + span,
        )
        self.drains[key] = until

    @rule(phone=phones)
    def person_undrains(self, phone: str) -> None:
        held = set(self.holding(phone))
        lifted = self.state.undrain([phone], now=self.now)
        assert {(name, d.origin, d.who) for name, ds in lifted.items() for d in ds} == held
        self.drains = {key: end for key, end in self.drains.items() if key[0] != phone}

    @rule(phone=phones, check=checks)
    def check_drains(self, phone: str, check: str) -> None:
        self.state.drain([phone], check, "47 degrees", "check", now=self.now)
        self.drains[phone, "check", check] = None

    @rule(phone=phones, check=checks)
    def check_turns_good(self, phone: str, check: str) -> None:
        self.state.undrain([phone], check=check, now=self.now)
        self.drains.pop((phone, "check", check), None)

    @rule(phone=phones, answers=st.booleans())
    def phone_is_asked(self, phone: str, answers: bool) -> None:
        self.now += 0.125
        self.state.record_contact({phone: answers}, self.now)
        if phone in self.met and (not answers or phone in self.missing):
            self.needs_look.add(phone)
        if answers:
            self.met.add(phone)
            self.missing.discard(phone)
        else:
            self.missing.add(phone)

    @rule(phone=phones)
    def phone_reboots(self, phone: str) -> None:
        known = phone in self.met
        self.phone_is_asked(phone, answers=False)
        self.phone_is_asked(phone, answers=True)
        assert not known or self.seen(phone) != "ready"

    @rule(phone=phones, away=st.sampled_from([15.0, 600.0]))
    def phone_restarts_between_two_looks(self, phone: str, away: float) -> None:
        known = phone in self.met
        self.now += away
        self.state.record_contact({phone: True}, self.now, up_seconds={phone: 1.0})
        if known:
            self.needs_look.add(phone)
        self.met.add(phone)
        self.missing.discard(phone)

    @rule(phone=phones, since=st.sampled_from([0.0, 5.0]))
    def phone_is_asked_how_long_it_runs(self, phone: str, since: float) -> None:
        """One that has run since about the last contact has not restarted."""
        contact = self.state.phones(self.now).get(phone, PhoneFacts()).contact
        if contact.seen is None or phone in self.missing:
            return
        self.now += 60.0
        before = self.seen(phone)
        up = max(self.now - contact.seen - since, 0.0)
        self.state.record_contact({phone: True}, self.now, up_seconds={phone: up})
        assert (self.seen(phone) == "suspect") == (before == "suspect")

    @rule(phone=phones, status=st.sampled_from(["OK", "WARN", "CRITICAL", "UNKNOWN"]))
    def phone_is_looked_at(
        self, phone: str, status: Literal["OK", "WARN", "CRITICAL", "UNKNOWN"]
    ) -> None:
        self.state.record_health(phone, status, "", self.now)
        if status == "CRITICAL":
            self.needs_look.add(phone)
        elif status != "UNKNOWN":
            self.needs_look.discard(phone)

    @rule(run=runs, wanted=st.lists(phones, min_size=1, max_size=2, unique=True))
    def run_takes_phones(self, run: str, wanted: list[str]) -> None:
        held = any(self.holders.get(phone, run) != run for phone in wanted)
        drained = any(self.holding(phone) for phone in wanted)
        try:
            self.state.allocate(run, wanted, self.now)
        except Held:
            assert held
        except Drained:
            assert drained
        else:
            assert not held
            assert not drained
            self.holders |= dict.fromkeys(wanted, run)

    @rule(run=runs)
    def run_ends(self, run: str) -> None:
        self.state.release(run, self.now)
        self.holders = {phone: holder for phone, holder in self.holders.items() if holder != run}

    @precondition(lambda self: not self.holders)
    @rule(phone=phones)
    def phone_is_replaced(self, phone: str) -> None:
        self.state.forget([phone], keep_drains=True, now=self.now)
        for known in (self.needs_look, self.met, self.missing):
            known.discard(phone)
        assert self.seen(phone) != "ready"

    @rule()
    def program_starts_anew(self) -> None:
        self.state.close()
        self.state = State(self.folder / "state.db", who="operator")

    @invariant()
    def no_drain_is_lost_and_none_is_invented(self) -> None:
        known = self.state.phones(self.now)
        for phone in PHONES:
            drains = known.get(phone, PhoneFacts()).drains
            assert sorted((phone, d.origin, d.who) for d in drains) == sorted(self.holding(phone))
            assert (self.seen(phone) in ("drained", "draining")) == bool(self.holding(phone))

    @invariant()
    def who_was_away_is_not_ready(self) -> None:
        for phone in self.needs_look:
            assert self.seen(phone) != "ready"

    @invariant()
    def the_history_tells_the_same_story(self) -> None:
        for phone in PHONES:
            events = self.state.history(phone, self.now)
            assert told_holder(events) == self.holders.get(phone)
            keys = self.holding(phone)
            names = {f"check {who}" if origin == "check" else who for _, origin, who in keys}
            assert told_drains(events) == names


def told_holder(events: list[Event]) -> str | None:
    holder = None
    for event in events:
        if event.kind == "allocated":
            holder = event.why.removeprefix("to run ")
        elif event.kind == "released":
            holder = None
    return holder


def told_drains(events: list[Event]) -> set[str]:
    """Whose drains hold by the history."""
    found: set[str] = set()
    for event in events:
        if event.kind == "drained":
            found.add(event.who)
        elif event.kind in ("undrained", "drain-ended"):
            found.discard(event.why.removeprefix("drain by ").partition(":")[0])
    return found


TestFleet = Fleet.TestCase
TestFleet.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
