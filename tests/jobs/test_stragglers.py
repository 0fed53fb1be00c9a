"""Stragglers: named by the time that they compute, never by the time that they wait."""

import dataclasses

import pytest

from fleetctl.jobs.stragglers import LOOKS, Straggler, Stragglers
from trainer.formats import Progress

SAMPLES = {"phone001": 8, "phone002": 8, "phone003": 16, "phone004": 0}


def looks(iteration: int, *compute: float, wait: float = 0.0) -> dict[str, Progress]:
    return {
        phone: Progress("r", rank, phone, 0.0, iteration, 99, 0, 1.0, None, seconds, 0.1, wait, 8)
        for rank, (phone, seconds) in enumerate(zip(SAMPLES, compute, strict=False))
    }


def after(stragglers: Stragglers, first: int, *compute: float, **more: float) -> list[Straggler]:
    found: list[Straggler] = []
    for iteration in range(first, first + LOOKS):
        found += stragglers.take(looks(iteration, *compute, **more))
    return found


def test_the_slow_phone_is_named_once_and_those_that_wait_are_not() -> None:
    stragglers = Stragglers(SAMPLES)
    (found,) = after(stragglers, 1, 1.0, 1.4, 2.0, 0.0, wait=30.0)
    assert (found.phone, found.fastest) == ("phone002", "phone001")
    assert found.of_fastest == 1.4
    assert after(stragglers, 50, 1.0, 1.4, 2.0, wait=30.0) == []


def test_what_a_phone_says_of_its_samples_counts_and_one_that_pauses_is_not_slow() -> None:
    stragglers = Stragglers(SAMPLES)
    for iteration in range(LOOKS):
        seen = looks(iteration + 1, 1.0, 0.5, 0.01)
        seen["phone002"] = dataclasses.replace(seen["phone002"], samples=4)
        seen["phone003"] = dataclasses.replace(seen["phone003"], samples=0)
        assert stragglers.take(seen) == []


def test_twice_the_samples_may_take_twice_as_long() -> None:
    assert after(Stragglers(SAMPLES), 1, 1.0, 1.0, 2.2) == []


def test_a_phone_that_grows_hot_is_slower_than_its_own_best() -> None:
    stragglers = Stragglers(SAMPLES)
    assert after(stragglers, 1, 1.0, 1.1, 2.0) == []
    (found,) = after(stragglers, 10, 1.0, 1.65, 2.0)
    assert found.of_own_best == pytest.approx(1.5)
    said = found.sentence(47.2)
    assert "phone002 is a straggler" in said
    assert "1.5 times as long as at its own best (throttled?)" in said
    assert "47 °C" in said
    (worse,) = after(stragglers, 20, 1.0, 2.6, 2.0)
    assert worse.of_fastest == 2.6


def test_a_phone_that_has_become_slower_is_named_before_one_that_always_was() -> None:
    assert after(Stragglers(SAMPLES), 1, 1.0, 1.25, 2.0) == []
    stragglers = Stragglers(SAMPLES)
    assert after(stragglers, 1, 1.0, 1.0, 2.0) == []
    (found,) = after(stragglers, 10, 1.0, 1.25, 2.0)
    assert (found.phone, found.of_fastest, found.of_own_best) == ("phone002", 1.25, 1.25)


def test_phones_that_all_become_slower_wait_for_none_of_them() -> None:
    stragglers = Stragglers(SAMPLES)
    assert after(stragglers, 1, 1.0, 1.1, 2.0) == []
    assert after(stragglers, 10, 1.5, 1.6, 3.0) == []


def test_a_phone_slow_from_the_start_is_said_to_be_so() -> None:
    (found,) = after(Stragglers(SAMPLES), 1, 1.0, 1.4, 2.0)
    assert "as it has done from the start" in found.sentence(None)
    assert "its temperature is not known" in found.sentence(None)


def test_an_iteration_that_was_seen_already_counts_once() -> None:
    stragglers = Stragglers(SAMPLES)
    for _ in range(3 * LOOKS):
        assert stragglers.take(looks(1, 1.0, 9.0, 2.0)) == []
    assert stragglers.take({}) == []
