"""What a run cost, out of its events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.jobs.cost import cost_of, held


def at(time: float, kind: str, **facts: Any) -> dict[str, Any]:
    return {"time": time, "kind": kind, **facts}


def test_phones_count_from_when_they_are_held_to_the_end_spares_too() -> None:
    events = [
        at(0, "created", phones=["phone001", "phone002"], spares=["phone003"]),
        at(30, "started"),
        at(3600, "ended", state="done"),
    ]

    cost = cost_of(events, now=99999)

    assert (cost.phone_hours, cost.phones) == (3.0, 3)
    assert cost.words() == "3.00 phone-hours; energy: not measured"


def test_a_phone_that_was_lost_counts_until_another_took_its_place() -> None:
    events = [
        at(0, "created", phones=["phone001", "phone002"], spares=["phone003"]),
        at(1800, "attempt", number=2, phones=["phone001", "phone003"]),
        at(3600, "ended", state="done"),
    ]

    assert [(span.phone, span.since, span.until) for span in held(events, 0)] == [
        ("phone001", 0, 3600),
        ("phone002", 0, 1800),
        ("phone003", 0, 3600),
    ]
    assert cost_of(events, 0).phone_hours == 2.5


def test_a_run_that_waits_in_the_queue_again_costs_nothing_meanwhile() -> None:
    events = [
        at(0, "created", phones=["phone001", "phone002"]),
        at(1800, "requeued", reason="2 wanted, 1 ready"),
        at(7200, "given"),
        at(7200, "attempt", number=2, phones=["phone002", "phone003"]),
        at(9000, "ended", state="done"),
    ]

    assert cost_of(events, now=99999).phone_hours == 2.0
    assert cost_of(events[:2], now=99999).phone_hours == 1.0


def test_a_run_that_goes_on_costs_up_to_now() -> None:
    assert cost_of([at(0, "created", phones=["phone001"])], now=7200).phone_hours == 2.0


def test_energy_is_told_with_how_many_phones_it_was_measured_of() -> None:
    events = [
        at(0, "created", phones=["phone001", "phone002"]),
        at(3600, "ended", state="done"),
        at(3601, "energy", watt_hours={"phone001": 3.25}),
    ]

    assert cost_of(events, 0).words() == "2.00 phone-hours; energy: 3.2 Wh, of 1 of 2 phones"


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.sets(st.integers(1, 6), min_size=1)), min_size=1, max_size=6
    )
)
def test_no_phone_is_counted_twice_at_a_time(changes: list[tuple[float, set[int]]]) -> None:
    moments = sorted(changes, key=lambda change: change[0])
    events = [
        at(moment, "attempt", phones=[f"phone{number}" for number in sorted(phones)])
        for moment, phones in moments
    ]
    end = moments[-1][0] + 10

    spans = held([*events, at(end, "ended")], 0)

    seconds = sum(span.until - span.since for span in spans)
    edges = [*(moment for moment, _ in moments[1:]), end]
    expected = sum(
        len(phones) * (until - since) for (since, phones), until in zip(moments, edges, strict=True)
    )
    assert seconds == pytest.approx(expected)
