"""What steps and rings cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.plan.cost import StepCost, between, ring_terms


def step(batch: int, start: float, slope: float) -> StepCost:
    """On a line: a pass back takes twice a pass forward, the optimiser always 5 ms."""
    whole = start + slope * batch
    return StepCost(batch, whole / 3, whole * 2 / 3, 0.005)


BATCHES = st.lists(st.integers(1, 256), min_size=1, max_size=5, unique=True)
START = st.floats(0, 1)
SLOPE = st.floats(1e-4, 1)


@given(BATCHES, START, SLOPE)
def test_what_was_measured_is_told_as_it_was(
    batches: list[int], start: float, slope: float
) -> None:
    measured = [step(batch, start, slope) for batch in batches]
    for each in measured:
        assert between(measured, each.batch).seconds == pytest.approx(each.seconds)


@given(st.lists(st.integers(1, 256), min_size=2, max_size=5, unique=True), START, SLOPE,
       st.integers(1, 512))  # fmt: skip
def test_a_phone_that_goes_by_a_line_is_told_by_it(
    batches: list[int], start: float, slope: float, batch: int
) -> None:
    measured = [step(each, start, slope) for each in batches]
    assert between(measured, batch).seconds == pytest.approx(step(batch, start, slope).seconds)


@given(st.dictionaries(st.integers(1, 64), st.floats(0.01, 10), min_size=1, max_size=5),
       st.integers(1, 128))  # fmt: skip
def test_nothing_is_told_that_cannot_be(times: dict[int, float], batch: int) -> None:
    """Whatever noise was measured: fewer samples than ever take their part, more no less."""
    measured = [StepCost(b, t / 3, t * 2 / 3, 0.0) for b, t in times.items()]
    told = between(measured, batch).seconds
    least, most = min(times), max(times)
    if batch < least:
        assert told >= times[least] * batch / least * (1 - 1e-9)
    if batch > most:
        assert told >= times[most] * (1 - 1e-9)
    assert told > 0


def test_one_measurement_is_taken_in_proportion() -> None:
    told = between([StepCost(8, 0.1, 0.2, 0.05)], 4)
    assert (told.forward_seconds, told.backward_seconds) == pytest.approx((0.05, 0.1))
    assert told.optimizer_seconds == 0.05


def test_a_ring_sends_almost_everything_twice_and_every_message_has_its_steps() -> None:
    assert ring_terms(4, 100) == (6, 150)
    assert ring_terms(4, 100, messages=3) == (18, 150)
    assert ring_terms(1, 100) == (0, 0)
