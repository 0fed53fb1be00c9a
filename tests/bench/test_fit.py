"""α and B out of measured rings, speed-up and efficiency."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.bench.fit import (
    RingSample,
    fit_ring,
    speed_up,
    steps_of_phones,
    throughput_efficiency,
)

ALPHAS = st.floats(1e-5, 1e-2)
BANDWIDTHS = st.floats(1e6, 2e8)


def ring_seconds(alpha: float, bandwidth: float, phones: int, size: int) -> float:
    """The cost model as the literature has it: p - 1 steps of reduce-scatter, as many of gather."""
    return sum(alpha + size / phones / bandwidth for _ in range(2 * (phones - 1)))


@given(ALPHAS, BANDWIDTHS, st.lists(st.integers(2, 138), min_size=1, max_size=4), st.integers(7, 9))
def test_known_values_come_back(
    alpha: float, bandwidth: float, counts: list[int], largest: int
) -> None:
    samples = [
        RingSample(p, size, ring_seconds(alpha, bandwidth, p, size))
        for p in counts
        for size in (1_000, 100_000, 10**largest)
    ]
    found = fit_ring(samples)
    assert found.alpha_seconds == pytest.approx(alpha, rel=1e-3)
    assert found.bytes_per_second == pytest.approx(bandwidth, rel=1e-3)
    assert found.error < 1e-3
    for sample in samples:
        told = found.ring_seconds(sample.phones, sample.bytes)
        assert told == pytest.approx(sample.seconds, rel=1e-3)


@given(ALPHAS, BANDWIDTHS, st.lists(st.floats(0.9, 1.1), min_size=8, max_size=8))
def test_noise_of_a_tenth_moves_both_by_little(
    alpha: float, bandwidth: float, noise: list[float]
) -> None:
    shapes = [(p, size) for p in (4, 16) for size in (100, 1_000, 10**8, 3 * 10**8)]
    found = fit_ring(
        RingSample(p, size, factor * ring_seconds(alpha, bandwidth, p, size))
        for (p, size), factor in zip(shapes, noise, strict=True)
    )
    assert found.bytes_per_second == pytest.approx(bandwidth, rel=0.35)
    assert found.alpha_seconds == pytest.approx(alpha, rel=0.35)
    assert found.error < 0.15


def test_a_cost_without_steps_has_no_negative_alpha() -> None:
    samples = [RingSample(2, 1_000, 0.5e-4), RingSample(2, 10**6, 0.2)]
    found = fit_ring(samples)
    assert found.alpha_seconds == 0
    assert found.bytes_per_second > 0


def test_what_cannot_tell_the_two_apart_is_refused() -> None:
    with pytest.raises(ValueError, match="alike"):
        fit_ring([RingSample(4, 1000, 0.1), RingSample(4, 1000, 0.2)])
    with pytest.raises(ValueError, match="two phones"):
        fit_ring([RingSample(1, 1000, 0.1)])
    with pytest.raises(ValueError, match="no time"):
        fit_ring([RingSample(2, 1000, 0.0)])
    with pytest.raises(ValueError, match="larger"):
        fit_ring([RingSample(2, 1_000, 0.1), RingSample(2, 10**8, 0.001)])


@given(st.integers(2, 300))
def test_numbers_of_phones_double_and_end_with_all(most: int) -> None:
    steps = steps_of_phones(most)
    assert steps[-1] == most
    assert all(b <= 2 * a for a, b in pairwise(steps))
    assert list(steps) == sorted(set(steps))


@given(st.integers(1, 200), st.floats(0.1, 1e5), st.integers(1, 8))
def test_as_fast_as_its_phones_is_perfect(factor: int, base_rate: float, base: int) -> None:
    """Twice the phones with twice the images a second lose nothing."""
    phones, rate = base * factor, base_rate * factor
    assert throughput_efficiency(phones, rate, base, base_rate) == pytest.approx(1)
    assert speed_up(rate, base_rate, base) == pytest.approx(phones)


def test_half_as_fast_is_half_as_efficient() -> None:
    assert throughput_efficiency(8, 40.0, 2, 20.0) == pytest.approx(0.5)
    assert speed_up(40.0, 20.0, 2) == pytest.approx(4)
