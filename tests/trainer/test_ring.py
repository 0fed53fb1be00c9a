"""The ring sums like NumPy for any number of ranks, any length, any segment size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Loopback, carry, on_all_ranks

from trainer.exchange.ring import Ring


def ring_sums(parts: list[np.ndarray], segment_bytes: int) -> list[np.ndarray]:
    def work(transport: Loopback) -> np.ndarray:
        data = parts[transport.rank].copy()
        carry(Ring(transport, segment_bytes).all_reduce(data))
        return data

    return on_all_ranks(len(parts), work)


@settings(deadline=None, max_examples=60)
@given(
    size=st.integers(1, 6),
    length=st.integers(0, 200),
    segment_bytes=st.sampled_from([8, 24, 64, 4096]),
    seed=st.integers(0, 1000),
)
def test_every_rank_holds_the_sum(size: int, length: int, segment_bytes: int, seed: int) -> None:
    # Whole numbers, so that the order of the additions cannot matter.
    generator = np.random.default_rng(seed)
    parts = [generator.integers(-99, 99, length).astype(np.float32) for _ in range(size)]
    expected = np.sum(parts, axis=0, dtype=np.float32)
    for result in ring_sums(parts, segment_bytes):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_ranks_agree_to_the_last_bit(dtype: type) -> None:
    generator = np.random.default_rng(1)
    parts = [(generator.random(1001) * 40).astype(dtype) for _ in range(5)]
    results = ring_sums(parts, 256)
    assert all(result.tobytes() == results[0].tobytes() for result in results)
    np.testing.assert_allclose(results[0], np.sum(parts, axis=0, dtype=dtype), rtol=1e-5)
