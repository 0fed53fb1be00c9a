"""What a run's events say of its attempts, and whether another one makes sense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.jobs import past
from fleetctl.jobs.past import Attempt
from fleetctl.jobs.verdict import Cause, Verdict


def failed(cause: Cause = "phones", **culprits: str) -> Verdict:
    return Verdict("failed", "; ".join(culprits.values()) or "it failed", culprits, None, {}, cause)


def attempt(number: int, iteration: int, verdict: Verdict | None = None) -> Attempt:
    return Attempt(number, ("phone001", "phone002"), (), iteration, True, verdict)


EVENTS: list[dict[str, Any]] = [
    {"kind": "created", "phones": ["phone001", "phone002"], "spares": ["phone003"], "iteration": 0},
    {"kind": "started", "head": "phone001", "pid": 7},
    {
        "kind": "attempt-ended",
        **Verdict(
            "failed", "gone", {"phone001": "gone"}, None, {"phone001": "gone"}, "phones"
        ).as_json(),
    },
    {"kind": "attempt", "number": 2, "phones": ["phone002", "phone003"], "iteration": 40},
]


def test_the_attempts_are_read_from_the_events() -> None:
    first, second = past.attempts(EVENTS)
    assert (first.phones, first.spares) == (("phone001", "phone002"), ("phone003",))
    assert first.verdict is not None
    assert first.verdict.culprits == {"phone001": "gone"}
    assert (second.number, second.iteration, second.started) == (2, 40, False)
    assert second.verdict is None
    assert past.blamed([first, second]) == {"phone001": "gone"}


def test_a_phone_that_was_away_is_left_until_it_was_cleared() -> None:
    assert past.left(EVENTS) == {"phone001": "gone"}
    assert past.left([*EVENTS, {"kind": "cleared", "phone": "phone001"}]) == {}


@pytest.mark.parametrize(
    ("verdict", "trains", "helps"),
    [
        (failed(phone001="gone"), True, True),
        (failed("unknown"), True, True),
        (failed("interrupted"), True, True),
        (failed("program"), True, False),
        (failed(phone001="gone"), False, False),
        (Verdict("done", None, {}, 0.9), True, False),
        (Verdict("stopped", "by a person", {}, None), True, False),
    ],
)
def test_another_attempt_helps_where_the_program_is_not_the_reason(
    verdict: Verdict, trains: bool, helps: bool
) -> None:
    assert past.can_go_on(verdict, trains=trains) == helps


def test_attempts_that_come_no_further_are_counted_from_the_last_one_back() -> None:
    stuck = [attempt(1, 0, failed()), attempt(2, 40, failed()), attempt(3, 40, failed())]
    assert past.without_progress(stuck, 40) == 2
    assert past.without_progress(stuck, 50) == 0
    stuck.append(attempt(4, 40, failed("interrupted")))
    assert past.without_progress(stuck, 40) == 2


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 50))
def test_a_job_that_comes_forward_never_runs_out_of_attempts(steps: list[int], last: int) -> None:
    reached = [sum(steps[:index]) for index in range(len(steps))]
    tried = [attempt(index + 1, at, failed()) for index, at in enumerate(reached)]
    assert past.without_progress(tried, reached[-1] + last) == 0


def test_the_first_attempt_after_a_lost_phone_begins_at_once_and_later_ones_wait() -> None:
    assert past.pause_seconds(0, failed("unknown")) == 0
    assert past.pause_seconds(1, failed(phone001="gone")) == 0
    pauses = [past.pause_seconds(stalled, failed("unknown")) for stalled in (1, 2)]
    assert 0 < pauses[0] < pauses[1]
