"""Who starts, who waits, and what each is told."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fleetctl.rack.placement import Floor
from fleetctl.serve.decide import AGEING_SECONDS, HOLD_SECONDS, Decision, Running, Waiting, decide

NOW = 1_000_000.0
FLOOR = Floor(tuple(f"phone{i:03}" for i in range(1, 9)), ("sw1",) * 4 + ("sw2",) * 4)
FIRST, SECOND = FLOOR.names[:4], FLOOR.names[4:]


def job(name: str, number: int = 1, wanted: int = 4, **options: object) -> Waiting:
    facts: dict[str, object] = {"least": wanted, "most": wanted, "arrived": NOW} | options
    return Waiting(name, number, **facts)  # type: ignore[arg-type]


def decided(
    waiting: Sequence[Waiting],
    running: Sequence[Running] = (),
    unusable: Mapping[str, str] | None = None,
    now: float = NOW,
) -> Decision:
    return decide(FLOOR, waiting, running, unusable or {}, now)


def names(decision: Decision) -> list[str]:
    return [start.name for start in decision.starts]


def test_jobs_start_by_priority_then_arrival_on_a_switch_each() -> None:
    late = job("urgent", 3, priority=1)

    decision = decided([job("one", 1), job("two", 2), late])

    assert [(start.name, start.phones) for start in decision.starts] == [
        ("urgent", FIRST),
        ("one", SECOND),
    ]
    assert decision.waits == {
        "two": "4 wanted, 0 free; when is not known: urgent has no time limit"
    }


def test_a_job_that_waits_for_an_hour_is_one_step_more_urgent() -> None:
    old, urgent = job("old", 1, 8), job("urgent", 2, 8, priority=1, arrived=NOW + AGEING_SECONDS)

    assert names(decided([old, urgent], now=NOW + AGEING_SECONDS - 1)) == ["urgent"]
    assert names(decided([old, urgent], now=NOW + AGEING_SECONDS)) == ["old"]


def test_the_first_job_is_promised_a_time_that_those_behind_it_cannot_break() -> None:
    running = [Running("short", FIRST, NOW + 600), Running("long", SECOND[:2], NOW + 7200)]
    whole = job("whole", 1, 6)
    waiting = [
        whole,
        job("brief", 2, 1, limit_seconds=600),
        job("too-long", 3, 2, limit_seconds=601),
    ]

    decision = decided(waiting, running)

    # At 600 s four phones come free: with the two that are, enough for the first.
    assert decision.promise is not None
    assert decision.promise.at == NOW + 600
    assert names(decision) == ["brief"]
    at = time.strftime("%m-%d %H:%M", time.localtime(NOW + 600))
    assert decision.waits == {
        "whole": f"6 wanted, 2 free; starts at {at} or earlier",
        "too-long": "2 wanted, 1 free; whole is first",
    }


def test_phones_that_the_first_job_will_not_need_are_for_anybody() -> None:
    running = [Running("short", FIRST, NOW + 600), Running("long", SECOND[:2], NOW + 7200)]

    decision = decided([job("first", 1, 4), job("endless", 2, 2)], running)

    assert names(decision) == ["endless"]
    assert decision.promise is not None
    assert decision.promise.phones == FIRST


def test_nothing_passes_the_first_job_while_its_time_is_unknown() -> None:
    running = [Running("endless", FIRST), Running("other", SECOND[:2])]

    decision = decided([job("first", 1, 4), job("brief", 2, 1, limit_seconds=1)], running)

    assert names(decision) == []
    assert decision.waits["brief"] == "1 wanted; free phones are kept for first, which is first"


def test_a_job_that_cannot_start_at_all_holds_up_nobody() -> None:
    unusable = {"phone001": "drained", "phone002": "lost", "phone003": "lost"}

    decision = decided([job("all-of-them", 1, 8), job("small", 2, 4)], [], unusable)

    assert names(decision) == ["small"]
    assert decision.waits == {
        "all-of-them": "8 wanted, 5 can serve: phone001 drained; phone002, phone003 lost"
    }


def test_what_was_kept_for_the_first_one_stays_kept_while_a_phone_flaps() -> None:
    unusable = {"phone001": "lost"}
    first = job("all-of-them", 1, 8, promised=NOW - 60)
    later = [job("small", 2, 4), job("brief", 3, 1, limit_seconds=60.0)]

    decision = decided([first, *later], [], unusable)

    assert names(decision) == []
    assert decision.promise is not None
    assert (decision.promise.name, decision.promise.at, decision.promise.held) == (
        *("all-of-them", None),
        True,
    )
    assert decision.waits["small"] == (
        "4 wanted; free phones are kept for all-of-them, which is first"
    )
    gone = decided([replace(first, promised=NOW - HOLD_SECONDS), *later], [], unusable)
    assert names(gone) == ["small", "brief"]


def test_an_old_job_keeps_phones_for_the_last_minutes_before_it_is_tried_again() -> None:
    old = job("old", 1, 6, arrived=NOW - AGEING_SECONDS, not_before=NOW + 300)
    brief, long = job("brief", 2, 4, limit_seconds=300.0), job("long", 3, 3)

    decision = decided([old, brief, long])

    assert names(decision) == ["brief"]  # it ends in time
    assert decision.promise is not None
    assert (decision.promise.name, decision.promise.at) == ("old", NOW + 300)
    assert decision.waits["long"] == "3 wanted; free phones are kept for old, which is first"

    much_later = replace(old, not_before=NOW + HOLD_SECONDS + 1)
    assert names(decided([much_later, brief, long])) == ["brief", "long"]


def test_a_start_that_failed_is_tried_again_later_and_holds_up_nobody() -> None:
    again = job("again", 1, 4, not_before=NOW + 60, trouble="phone001 does not answer")

    decision = decided([again, job("next", 2, 8)])

    assert names(decision) == ["next"]
    assert decision.waits["again"].endswith(": phone001 does not answer")
    assert names(decided([again, job("next", 2, 8)], now=NOW + 60)) == ["again"]


def test_named_phones_are_waited_for_while_others_are_used() -> None:
    named = job("named", 1, 2, among=FIRST[:2])

    decision = decided([named, job("any", 2, 5)], [Running("busy", FIRST[:1])])

    assert names(decision) == ["any"]
    assert "phone002" not in decision.starts[0].phones


def test_a_job_takes_what_there_is_between_its_least_and_its_most_and_spares_beside() -> None:
    few = decided([job("few", least=2, most=6, wanted=0)], [Running("busy", FIRST[:3])])
    assert few.starts[0].phones == ("phone004", *SECOND)

    spared = decided([job("spared", wanted=3, spares=2)])
    assert (spared.starts[0].phones, spared.starts[0].spares) == (
        FIRST[:3],
        ("phone004", "phone005"),
    )

    everything = decided([job("everything", least=1, most=None, wanted=0)])
    assert everything.starts[0].phones == FLOOR.names
