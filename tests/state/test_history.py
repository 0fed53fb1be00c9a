"""What happened to a phone, and drains that end by themselves."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetctl.state import Allocation, Drained, Health, State, derive
from fleetctl.state.history import KEPT_EVENTS
from fleetctl.state.schema import SCHEMA_1

NOW = 1_000_000.0


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "state.db", who="ann") as state:
        yield state


def told(state: State, phone: str, now: float = NOW + 99) -> list[tuple[str, str, str]]:
    return [(event.kind, event.who, event.why) for event in state.history(phone, now)]


def test_every_change_of_a_phone_is_told_with_who_and_why(state: State) -> None:
    state.record_contact({"phone001": True}, NOW)
    state.record_health("phone001", "OK", now=NOW, who="preflight")
    state.allocate("digits-1", ["phone001"], NOW + 1, why="digits.yml")
    state.drain(["phone001"], "bob", "screen broken", now=NOW + 2)
    state.record_contact({"phone001": False}, NOW + 3, why={"phone001": "no route"})
    state.record_health("phone001", "CRITICAL", "lost", NOW + 3, who="run digits-1")
    state.release("digits-1", NOW + 4)
    state.record_contact({"phone001": True}, NOW + 5)
    state.undrain(["phone001"], now=NOW + 6)
    assert told(state, "phone001") == [
        ("answered", "ann", ""),
        ("health", "preflight", "OK"),
        ("allocated", "ann", "to run digits-1: digits.yml"),
        ("drained", "bob", "screen broken"),
        ("lost", "ann", "no route"),
        ("health", "run digits-1", "CRITICAL: lost"),
        ("released", "ann", "by run digits-1"),
        ("answered", "ann", ""),
        ("undrained", "ann", "drain by bob: screen broken"),
    ]
    assert [event.time for event in state.history("phone001")][-1] == NOW + 6
    assert told(state, "phone002") == []


def test_what_is_as_before_is_no_event(state: State) -> None:
    for moment in range(5):
        state.record_contact({"phone001": True}, NOW + moment)
        state.record_health("phone001", "OK", now=NOW + moment)
        state.undrain(["phone001"], now=NOW + moment)
        state.release("no-run", now=NOW + moment)
    assert [kind for kind, _, _ in told(state, "phone001")] == ["answered", "health"]


def test_health_and_allocation_say_who_and_why(state: State) -> None:
    state.record_health("phone001", "WARN", "its clock is off", NOW, who="preflight")
    state.allocate("digits-1", ["phone001"], NOW, who="serve", why="queued by ann")
    known = state.phones()["phone001"]
    assert known.health == Health("WARN", "its clock is off", NOW, "preflight")
    assert known.allocation == Allocation("digits-1", NOW, "serve", "queued by ann")
    assert known.run == "digits-1"


def test_a_run_that_takes_its_own_phones_again_keeps_when_and_why(state: State) -> None:
    state.allocate("digits-1", ["phone001"], NOW, why="first")
    state.allocate("digits-1", ["phone001", "phone002"], NOW + 9, why="a spare")
    assert state.phones()["phone001"].allocation == Allocation("digits-1", NOW, "ann", "first")
    assert [kind for kind, _, _ in told(state, "phone001")] == ["allocated"]


def test_the_history_is_bounded_and_the_newest_stays(state: State) -> None:
    for turn in range(KEPT_EVENTS + 20):
        state.record_health("phone001", "WARN", f"turn {turn}", NOW + turn)
    state.drain(["phone002"], "bob", "screen broken", now=NOW)
    events = state.history("phone001")
    assert len(events) == KEPT_EVENTS
    assert events[-1].why == f"WARN: turn {KEPT_EVENTS + 19}"
    assert [kind for kind, _, _ in told(state, "phone002")] == ["drained"]


def test_a_phone_that_comes_and_goes_washes_no_other_story_away(state: State) -> None:
    state.drain(["phone001"], "bob", "swollen", now=NOW)
    state.record_health("phone001", "CRITICAL", "its battery is not well", NOW)
    for turn in range(KEPT_EVENTS):
        state.record_contact({"phone001": turn % 2 == 0}, NOW + turn)
        state.allocate(f"digits-{turn}", ["phone002"], NOW + turn)
        state.release(f"digits-{turn}", NOW + turn)
    kinds = [event.kind for event in state.history("phone001")]
    assert kinds[:2] == ["drained", "health"]
    assert len(state.history("phone002")) == KEPT_EVENTS


def test_what_every_look_measures_anew_is_no_event(state: State) -> None:
    for said in (
        "its battery has 41 °C, near the limit of 45 °C; is charged to 97%, more than 95%",
        "its battery has 42 °C, near the limit of 45 °C; is charged to 98%, more than 95%",
    ):
        state.record_health("phone001", "WARN", said, NOW)
    health = state.phones()["phone001"].health
    assert health is not None
    assert health.message == said
    assert [kind for kind, _, _ in told(state, "phone001")] == ["health"]
    for said in ("has Open MPI 5.0.3", "has Open MPI 5.0.4", "lost (in run digits-1)",
                 "lost (in run digits-2)", "answers at 10.0.0.7 now"):  # fmt: skip
        state.record_health("phone002", "CRITICAL", said, NOW)
    assert len(told(state, "phone002")) == 5


def test_a_check_that_drains_for_the_same_again_is_no_event(state: State) -> None:
    for moment, ratio in ((0, "50%"), (9, "48%")):
        why = f"keeps {ratio} of its first speed"
        state.drain(["phone001"], "sustained", why, "check", NOW + moment)
        state.drain(["phone001"], "bob", "screen broken", now=NOW + moment)
    assert [who for _, who, _ in told(state, "phone001")] == ["check sustained", "bob", "bob"]
    assert {drain.why for drain in state.phones()["phone001"].drains} == {why, "screen broken"}


def test_a_refused_change_leaves_no_trace(state: State) -> None:
    state.drain(["phone002"], "bob", "screen broken", now=NOW)
    with pytest.raises(Drained):
        state.allocate("digits-1", ["phone001", "phone002"], NOW + 1)
    assert told(state, "phone001") == []


def test_the_history_of_a_place_outlives_its_phone(state: State) -> None:
    state.drain(["phone001"], "bob", "screen broken", now=NOW)
    state.forget(["phone001"], now=NOW + 1)
    assert [kind for kind, _, _ in told(state, "phone001")] == ["drained", "forgotten"]


def test_a_drain_until_then_ends_by_itself_and_is_told_so(state: State) -> None:
    state.record_contact({"phone001": True}, NOW)
    state.drain(["phone001"], "bob", "fan is changed", now=NOW, until=NOW + 60)

    def seen(now: float) -> str:
        return derive(state.phones(now)["phone001"], now)

    assert seen(NOW + 59) == "drained"
    assert state.groups(NOW + 59)["drained"] == ["phone001"]
    assert seen(NOW + 60) == "ready"
    assert state.groups(NOW + 60)["drained"] == []
    # Told before anything was written since, and not twice once it was.
    assert told(state, "phone001")[-1] == ("drain-ended", "bob", "drain by bob: fan is changed")
    state.allocate("digits-1", ["phone001"], NOW + 61)
    kinds = [kind for kind, _, _ in told(state, "phone001")]
    assert kinds == ["answered", "drained", "drain-ended", "allocated"]


def test_until_then_no_run_gets_the_phone(state: State) -> None:
    state.drain(["phone001"], "bob", "fan is changed", now=NOW, until=NOW + 60)
    with pytest.raises(Drained, match=r"phone001 by bob \(fan is changed\)"):
        state.allocate("digits-1", ["phone001"], NOW + 59)


@pytest.mark.parametrize(
    ("first", "second", "end"),
    [
        (None, NOW + 60, None),
        (NOW + 60, None, None),
        (NOW + 60, NOW + 30, NOW + 60),
        (NOW + 30, NOW + 60, NOW + 60),
    ],
)
def test_drained_once_more_the_new_reason_counts_and_the_later_end(
    state: State, first: float | None, second: float | None, end: float | None
) -> None:
    state.drain(["phone001"], "bob", "screen broken", now=NOW, until=first)
    before = state.drain(["phone001"], "bob", "and the fan", now=NOW + 1, until=second)
    assert [drain.why for drain in before["phone001"]] == ["screen broken"]
    (drain,) = state.phones(NOW + 2)["phone001"].drains
    assert (drain.why, drain.until) == ("and the fan", end)


def test_a_drain_that_has_ended_does_not_count_for_the_next_one(state: State) -> None:
    state.drain(["phone001"], "bob", "fan is changed", now=NOW, until=NOW + 60)
    assert state.drain(["phone001"], "bob", "again", now=NOW + 70, until=NOW + 80) == {}
    assert state.phones(NOW + 79)["phone001"].drains[0].until == NOW + 80


def test_a_check_that_finds_the_same_again_says_since_when_it_has_been_so(state: State) -> None:
    for minute, found in enumerate(("46 °C", "47 °C", "47 °C")):
        state.drain(["phone001"], "temperature", found, "check", now=NOW + 60 * minute)
    (drain,) = state.phones(NOW + 200)["phone001"].drains
    assert (drain.since, drain.why) == (NOW, "47 °C")
    # Once it was good in between, it begins anew.
    state.undrain(["phone001"], check="temperature", now=NOW + 200)
    state.drain(["phone001"], "temperature", "48 °C", "check", now=NOW + 300)
    assert state.phones(NOW + 301)["phone001"].drains[0].since == NOW + 300


def test_an_old_databases_drains_allocations_and_health_stay(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as database:
        database.executescript(f"{SCHEMA_1}; PRAGMA user_version = 1;")
        database.execute("INSERT INTO drains VALUES ('phone001', 'ann', 'person', 'x', ?)", (NOW,))
        database.execute("INSERT INTO health VALUES ('phone002', 'OK', '', ?)", (NOW,))
        database.execute("INSERT INTO allocations VALUES ('phone002', 'digits-1', ?)", (NOW,))
    database.close()
    with State(path) as state:
        known = state.phones()
        assert [(drain.who, drain.until) for drain in known["phone001"].drains] == [("ann", None)]
        assert known["phone002"].allocation == Allocation("digits-1", NOW)
        assert known["phone002"].health == Health("OK", "", NOW)
        state.drain(["phone001"], "ann", "y", now=NOW + 1)
        assert [kind for kind, _, _ in told(state, "phone001")] == ["drained"]


@pytest.mark.parametrize(
    ("environment", "who"),
    [
        ({"LOGNAME": "root", "SUDO_USER": "ann"}, "ann"),
        ({"LOGNAME": "root", "DOAS_USER": "bob"}, "bob"),
        ({"LOGNAME": "root"}, "root"),
        ({"LOGNAME": "rack", "SUDO_USER": "ann"}, "rack"),
    ],
)
def test_who_became_root_for_it_is_who_did_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], who: str
) -> None:
    for name in ("SUDO_USER", "DOAS_USER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with State(tmp_path / "state.db") as state:
        state.allocate("digits-1", ["phone001"])
        (event,) = state.history("phone001")
    assert event.who == who
