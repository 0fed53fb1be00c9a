"""Drains, allocation, contact, and the state that follows from them."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.state import (
    AdbTry,
    Contact,
    Drain,
    Drained,
    Health,
    Held,
    PhoneFacts,
    Revocations,
    State,
    StateError,
    derive,
)
from fleetctl.state.facts import NEEDS_HANDS_AFTER_SECONDS

NOW = 1_000_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def state(path: Path) -> State:
    return State(path)


def state_of(state: State, phone: str, now: float = NOW) -> str:
    return derive(state.phones().get(phone, PhoneFacts()), now)


def test_a_phone_becomes_ready_when_it_answers(state: State) -> None:
    assert state_of(state, "phone001") == "suspect"
    state.record_contact({"phone001": True}, NOW)
    assert state_of(state, "phone001") == "ready"


def test_a_silent_phone_is_lost_and_then_needs_hands(state: State) -> None:
    state.record_contact({"phone001": True}, NOW)
    state.record_contact({"phone001": False}, NOW + 10)
    state.record_contact({"phone001": False}, NOW + 500)
    assert state_of(state, "phone001", NOW + 500) == "lost"
    late = NOW + 10 + NEEDS_HANDS_AFTER_SECONDS
    assert state_of(state, "phone001", late) == "lost"
    assert state_of(state, "phone001", late + 1) == "needs-hands"


def test_a_phone_that_came_back_is_suspect_until_its_next_good_check(state: State) -> None:
    state.record_health("phone001", "OK", "", NOW)
    for seconds, answered in ((1, True), (2, False), (3, True), (4, True)):
        state.record_contact({"phone001": answered}, NOW + seconds)
    assert state_of(state, "phone001", NOW + 5) == "suspect"
    state.record_health("phone001", "OK", "", NOW + 6)
    assert state_of(state, "phone001", NOW + 7) == "ready"


def test_why_a_phone_does_not_answer_is_kept_until_it_does(state: State) -> None:
    state.record_contact({"phone001": False}, NOW, why={"phone001": "refuses port 8022"})
    state.record_contact({"phone001": False}, NOW + 1)
    assert state.phones()["phone001"].contact.why == "refuses port 8022"
    state.record_contact({"phone001": True}, NOW + 2)
    assert state.phones()["phone001"].contact.why is None


def test_a_phone_that_still_answers_over_adb_needs_no_hands(state: State) -> None:
    late = NOW + 2 * NEEDS_HANDS_AFTER_SECONDS
    state.record_contact({"phone001": False, "phone002": False, "phone003": False}, NOW)
    state.record_adb({"phone001": True, "phone002": False}, NOW + 1)
    state.record_adb({"phone003": False}, NOW - 1)
    assert state_of(state, "phone001", late) == "lost"
    assert state.groups(late)["needs-hands"] == ["phone002", "phone003"]
    # Both doors are shut: it is not worth to wait. What adb said before says nothing.
    assert state_of(state, "phone002", NOW + 2) == "needs-hands"
    assert state_of(state, "phone003", NOW + 2) == "lost"


def test_adb_that_does_not_answer_is_no_matter_while_ssh_does(state: State) -> None:
    state.record_contact({"phone001": True}, NOW)
    state.record_adb({"phone001": False}, NOW + 1)
    assert state_of(state, "phone001") == "ready"


def test_a_phone_with_an_old_list_of_revoked_keys_is_suspect_until_it_has_the_new(
    state: State,
) -> None:
    state.record_contact({"phone001": True}, NOW)
    state.record_health("phone001", "OK", "", NOW)
    state.record_revocations({"phone001": 0})
    assert state_of(state, "phone001") == "ready"
    state.want_revocations(2)
    assert state_of(state, "phone001") == "suspect"
    state.record_health("phone001", "OK", "", NOW + 1)
    assert state_of(state, "phone001") == "suspect"
    state.record_revocations({"phone001": 2})
    assert state_of(state, "phone001") == "ready"


def test_what_was_known_of_a_phone_is_forgotten_for_the_next_one_of_its_name(state: State) -> None:
    for phone in ("phone001", "phone002"):
        state.record_contact({phone: True}, NOW)
        state.record_adb({phone: True}, NOW)
        state.record_health(phone, "OK", "", NOW)
        state.record_revocations({phone: 1})
        state.drain([phone], "ann", "screen broken", now=NOW)
    state.forget(["phone002"], keep_drains=True)
    assert state.phones()["phone002"] == PhoneFacts(
        drains=(Drain("ann", "screen broken", "person", NOW),)
    )
    state.forget(["phone001"])
    assert state.phones().keys() == {"phone002"}


def test_a_phone_that_works_for_a_run_is_not_forgotten(state: State) -> None:
    state.drain(["phone001"], "ann", "screen broken")
    state.allocate("run-1", ["phone002"])
    with pytest.raises(Held, match="phone002 by run run-1"):
        state.forget(["phone001", "phone002"])
    assert state.phones().keys() == {"phone001", "phone002"}


def test_a_database_of_the_first_version_is_brought_to_this_one(path: Path) -> None:
    from fleetctl.state.schema import SCHEMA_1

    with sqlite3.connect(path) as database:
        database.executescript(f"{SCHEMA_1}; PRAGMA user_version = 1;")
        database.execute("INSERT INTO contacts VALUES ('phone001', ?, NULL, NULL)", (NOW,))
    database.close()
    with State(path) as state:
        assert state_of(state, "phone001") == "ready"
        state.record_contact({"phone001": False}, NOW + 1, why={"phone001": "no route"})
    with State(path) as state:
        assert state.phones()["phone001"].contact == Contact(NOW, NOW + 1, None, "no route")


def test_a_failed_check_makes_a_phone_suspect(state: State) -> None:
    state.record_contact({"phone001": True}, NOW)
    state.record_health("phone001", "CRITICAL", "disk full", NOW)
    assert state_of(state, "phone001") == "suspect"
    state.record_health("phone001", "WARN", "disk nearly full", NOW)
    assert state_of(state, "phone001") == "ready"


def test_a_drained_phone_that_runs_a_job_is_draining_until_the_job_ends(state: State) -> None:
    state.allocate("run-1", ["phone001"])
    state.drain(["phone001"], "ann", "screen broken")
    assert state_of(state, "phone001") == "draining"
    state.release("run-1")
    assert state_of(state, "phone001") == "drained"


def test_a_check_lifts_only_the_drain_that_it_set(state: State) -> None:
    state.drain(["phone001"], "ann", "screen broken")
    state.drain(["phone001"], "temperature", "47 degrees", "check")
    state.drain(["phone001"], "battery", "health not good", "check")
    lifted = state.undrain(["phone001"], check="temperature")
    assert {name: [d.why for d in held] for name, held in lifted.items()} == {
        "phone001": ["47 degrees"]
    }
    left = [(drain.who, drain.origin) for drain in state.phones()["phone001"].drains]
    assert sorted(left) == [("ann", "person"), ("battery", "check")]


def test_a_check_called_like_a_person_leaves_the_persons_drain(state: State) -> None:
    state.drain(["phone001"], "disk", "mine")
    state.undrain(["phone001"], check="disk")
    assert state_of(state, "phone001") == "drained"


def test_a_person_lifts_every_drain(state: State) -> None:
    state.drain(["phone001", "phone002"], "ann", "screen broken")
    state.drain(["phone001"], "battery", "health not good", "check")
    lifted = state.undrain(["phone001", "phone003"])
    assert {name: {d.by for d in held} for name, held in lifted.items()} == {
        "phone001": {"ann", "check battery"}
    }
    assert state.groups()["drained"] == ["phone002"]


def test_allocation_is_all_or_nothing(state: State) -> None:
    state.allocate("run-1", ["phone002"])
    with pytest.raises(Held) as caught:
        state.allocate("run-2", ["phone001", "phone002", "phone003"])
    assert caught.value.holders == {"phone002": "run-1"}
    assert {name: fact.run for name, fact in state.phones().items()} == {"phone002": "run-1"}


def test_a_drained_phone_is_not_allocated(state: State) -> None:
    state.drain(["phone002"], "ann", "screen broken")
    with pytest.raises(Drained, match=r"phone002 by ann \(screen broken\)"):
        state.allocate("run-1", ["phone001", "phone002"])
    assert state.phones().keys() == {"phone002"}


def test_release_gives_back_only_the_runs_own_phones(state: State) -> None:
    state.allocate("run-1", ["phone001"])
    state.allocate("run-2", ["phone002"])
    state.release("run-1")
    state.allocate("run-3", ["phone001"])
    assert {name: fact.run for name, fact in state.phones().items()} == {
        "phone001": "run-3",
        "phone002": "run-2",
    }


def test_the_state_outlives_its_process(path: Path) -> None:
    with State(path) as state:
        state.drain(["phone001"], "ann", "screen broken", now=NOW)
    with State(path) as state:
        assert state.phones() == {
            "phone001": PhoneFacts(drains=(Drain("ann", "screen broken", "person", NOW),))
        }


def _grab(arguments: tuple[Path, int]) -> list[str]:
    """Phones that one process of many could get, one by one, from a database that is new."""
    path, process = arguments
    won = []
    with State(path) as state:
        for number in range(20):
            try:
                state.allocate(f"run-{process}", [f"phone{number:03}"])
            except Held:
                continue
            won.append(f"phone{number:03}")
    return won


def test_no_phone_goes_to_two_of_several_processes(path: Path) -> None:
    # A fork of a test worker could inherit a lock that one of its threads holds.
    with ProcessPoolExecutor(6, mp_context=get_context("spawn")) as pool:
        won = list(pool.map(_grab, [(path, process) for process in range(6)]))
    assert sorted(name for names in won for name in names) == [f"phone{n:03}" for n in range(20)]


def test_a_database_of_a_newer_version_is_refused_untouched(path: Path) -> None:
    State(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StateError, match="version 99 is newer"):
        State(path)


def test_a_file_that_is_no_database_is_named(path: Path) -> None:
    path.write_text("not a database, but long enough to look at" * 100)
    with pytest.raises(StateError, match=r"state\.db: file is not a database; it is damaged"):
        State(path)


def test_a_full_disk_is_said_and_nothing_is_lost(state: State, path: Path) -> None:
    state.drain(["phone001"], "ann", "screen broken")
    (pages,) = state._database._connection.execute("PRAGMA page_count").fetchone()
    state._database._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StateError, match="disk is full; check the free space"):
        state.drain([f"phone{number:03}" for number in range(2, 139)], "ann", "x" * 1000)
    assert state.phones().keys() == {"phone001"}
    with State(path) as other:
        assert other.phones().keys() == {"phone001"}


times = st.floats(min_value=0, max_value=2 * NOW)
contacts = st.builds(
    Contact,
    seen=st.none() | times,
    missed_since=st.none() | times,
    returned=st.none() | times,
    why=st.none() | st.text(),
)
healths = st.builds(
    Health,
    status=st.sampled_from(["OK", "WARN", "CRITICAL", "UNKNOWN"]),
    message=st.text(),
    time=times,
)
drains = st.builds(
    Drain, who=st.text(), why=st.text(), origin=st.sampled_from(["person", "check"]), since=times
)
facts = st.builds(
    PhoneFacts,
    drains=st.lists(drains, max_size=3).map(tuple),
    health=st.none() | healths,
    run=st.none() | st.just("run-1"),
    contact=contacts,
    adb=st.none() | st.builds(AdbTry, time=times, answered=st.booleans()),
    revocations=st.none()
    | st.builds(Revocations, seen=st.integers(0, 3), wanted=st.integers(0, 3)),
)


@given(facts, times)
def test_a_phone_is_drained_exactly_while_a_drain_holds(fact: PhoneFacts, now: float) -> None:
    assert (derive(fact, now) in ("drained", "draining")) == bool(fact.drains)


@given(facts, times)
def test_only_a_phone_without_drain_run_and_gap_is_ready(fact: PhoneFacts, now: float) -> None:
    if derive(fact, now) == "ready":
        assert not fact.drains
        assert fact.run is None
        assert fact.contact.missed_since is None
        assert fact.health is None or fact.health.status != "CRITICAL"
        assert fact.revocations is None or not fact.revocations.outdated


@given(st.lists(st.tuples(st.booleans(), st.floats(min_value=0, max_value=1000)), min_size=1))
def test_contact_follows_the_last_tries(tries: list[tuple[bool, float]]) -> None:
    contact, now, moments = Contact(), 0.0, []
    for answered, pause in tries:
        now += pause
        moments.append((answered, now))
        contact = contact.after(answered, now)
    answers = [moment for answered, moment in moments if answered]
    assert contact.seen == (answers[-1] if answers else None)
    assert (contact.missed_since is None) == tries[-1][0]


def test_facts_are_kept_with_their_time_until_the_phone_is_forgotten(path: Path) -> None:
    with State(path) as state:
        state.record_facts({"phone001": {"a": 1}, "phone002": {"a": 2}}, now=5.0)
        state.record_facts({"phone001": {"a": 3}}, now=7.0)
        state.forget(["phone002"])

        assert state.facts() == {"phone001": (7.0, {"a": 3})}
