"""A silent run: when its ranks are looked at, and who is named for what."""

from __future__ import annotations

import pytest

from fleetctl.jobs.probes import RankLook
from fleetctl.jobs.silence import GLANCE_SECONDS, Silence, behind
from fleetctl.remote import Fault, PhoneError

WORKS = frozenset({"S", "R"})


def looks(**iterations: int | None) -> dict[str, RankLook]:
    return {phone: RankLook(WORKS, iteration) for phone, iteration in iterations.items()}


def moments(limit_seconds: float, until: int) -> dict[int, str]:
    """Second of a silence -> what is looked for then."""
    silence = Silence()
    found = {second: silence.due(second, limit_seconds) for second in range(until)}
    return {second: due for second, due in found.items() if due}


def test_a_slow_run_is_glanced_at_long_before_its_deadline() -> None:
    assert moments(180.0, 41) == {10: "glance", 20: "glance", 30: "glance", 40: "glance"}
    assert moments(25.0, 52) == {10: "glance", 20: "glance", 25: "deadline", 35: "glance",
                                 45: "glance", 50: "deadline"}  # fmt: skip


def test_a_word_begins_another_silence() -> None:
    silence = Silence()
    assert silence.due(20.0, 20.0) == "deadline"
    assert silence.due(1.0, 20.0) is None
    assert silence.deadlines == 0
    assert silence.due(GLANCE_SECONDS, 20.0) == "glance"


def test_a_stopped_rank_is_named_at_the_first_glance_whatever_the_pace() -> None:
    seen = looks(phone001=3) | {"phone002": RankLook(frozenset({"S", "T"}), 3)}
    found = Silence().judge("glance", seen, {}, 60.0)
    assert [*found] == ["phone002"]
    assert "frozen" in str(found["phone002"])


def test_a_glance_proves_nothing_else() -> None:
    away = {"phone003": PhoneError("phone003", Fault.TIMEOUT, "phone003 took too long")}
    seen = looks(phone001=9) | {"phone002": RankLook(frozenset(), None)}
    assert Silence().judge("glance", seen, away, None) == {}
    assert Silence().judge("deadline", seen, away, None) == away
    assert [*Silence().judge("deadline", seen, {}, None)] == ["phone002"]


def test_a_phone_that_sends_us_away_at_the_deadline_is_no_dead_one() -> None:
    errors = {"phone003": PhoneError("phone003", Fault.THROTTLED, "phone003 is throttled")}
    seen = looks(phone001=9, phone002=9)
    assert Silence().judge("deadline", seen, errors, None) == {}
    gone = seen | {"phone002": RankLook(frozenset(), None)}
    assert [*Silence().judge("deadline", gone, errors, None)] == ["phone002"]


def test_a_rank_that_stands_still_behind_the_others_is_named_at_the_second_deadline() -> None:
    silence, seen = Silence(), looks(phone001=41, phone002=40, phone003=41)
    assert silence.judge("deadline", seen, {}, 18.0) == {}
    found = silence.judge("deadline", seen, {}, 18.0)
    assert [*found] == ["phone002"]
    assert "stands still in iteration 41; the others have finished 41" in str(found["phone002"])


@pytest.mark.parametrize(
    ("iteration_seconds", "late"),
    [(18.0, ["phone002"]), (0.3, ["phone002"]), (0.05, []), (None, [])],
)
def test_a_fast_rank_may_have_noted_its_iteration_late(
    iteration_seconds: float | None, late: list[str]
) -> None:
    assert [*behind(looks(phone001=40, phone002=36, phone003=None), iteration_seconds)] == late


def starting(*ready: str) -> dict[str, RankLook]:
    phones = ("phone001", "phone002", "phone003")
    return {phone: RankLook(WORKS, None, phone in ready) for phone in phones}


def test_a_rank_that_is_stuck_before_the_first_iteration_is_named_at_the_second_deadline() -> None:
    silence, seen = Silence(), starting("phone001", "phone003")
    assert silence.judge("deadline", seen, {}, None) == {}
    found = silence.judge("deadline", seen, {}, None)
    assert [*found] == ["phone002"]
    assert "has not got ready for the first iteration" in str(found["phone002"])


@pytest.mark.parametrize(
    "seen",
    [
        starting("phone001"),  # slow, most of them
        starting(),  # a program that says nothing of it
        starting("phone001", "phone002", "phone003"),
        starting("phone001", "phone003") | {"phone001": RankLook(WORKS, 1, ready=True)},
    ],
)
def test_a_start_in_which_no_few_keep_the_others_waiting_blames_nobody(
    seen: dict[str, RankLook],
) -> None:
    silence = Silence()
    assert [silence.judge("deadline", seen, {}, None) for _ in range(3)] == [{}, {}, {}]


def test_ranks_that_are_all_as_far_are_not_blamed() -> None:
    silence, seen = Silence(), looks(phone001=40, phone002=40)
    assert [silence.judge("deadline", seen, {}, 5.0) for _ in range(3)] == [{}, {}, {}]
