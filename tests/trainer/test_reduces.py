"""What every reduce that we send ourselves must do, with every codec: sum, agree, and no more."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Loopback, carry, on_all_ranks

from trainer.exchange.codec import CODECS
from trainer.exchange.reduce import build
from trainer.formats import Exchange

REDUCES = ("ring", "hierarchical")
PLACES: dict[str, Callable[[int], list[str]]] = {
    "one switch": lambda size: ["a"] * size,
    "two switches": lambda size: ["ab"[2 * rank >= size] for rank in range(size)],
    "uneven": lambda size: ["abc"[min(rank // 4, 2)] for rank in range(size)],
    "interleaved": lambda size: ["abc"[rank % 3] for rank in range(size)],
}


def sums(
    parts: Sequence[np.ndarray], exchange: Exchange, switches: Sequence[str]
) -> tuple[list[np.ndarray], list[Loopback]]:
    """What each rank ends with, and the transport by which it got there."""

    def work(transport: Loopback) -> tuple[np.ndarray, Loopback]:
        data = parts[transport.rank].copy()
        carry(build(exchange, transport, switches).all_reduce(data, CODECS[exchange.codec]))
        return data, transport

    results, transports = zip(*on_all_ranks(len(parts), work), strict=True)
    return list(results), list(transports)


def whole_numbers(size: int, length: int, seed: int) -> list[np.ndarray]:
    """So small that neither the order of the additions nor float16 can matter."""
    generator = np.random.default_rng(seed)
    return [generator.integers(-99, 99, length).astype(np.float32) for _ in range(size)]


@settings(deadline=None, max_examples=80)
@given(
    reduce=st.sampled_from(REDUCES),
    codec=st.sampled_from(sorted(CODECS)),
    place=st.sampled_from(sorted(PLACES)),
    size=st.integers(1, 8),
    length=st.one_of(st.integers(0, 20), st.integers(0, 5000)),
    segment_bytes=st.sampled_from([8, 24, 4096, 1 << 20]),
    seed=st.integers(0, 1000),
)
def test_every_rank_holds_the_sum_as_one_process_would(
    reduce: str, codec: str, place: str, size: int, length: int, segment_bytes: int, seed: int
) -> None:
    exchange = Exchange(reduce=reduce, codec=codec, segment_bytes=segment_bytes)  # type: ignore[arg-type]
    parts = whole_numbers(size, length, seed)
    for result in sums(parts, exchange, PLACES[place](size))[0]:
        np.testing.assert_array_equal(result, np.sum(parts, axis=0, dtype=np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("reduce", REDUCES)
def test_ranks_agree_to_the_last_bit(reduce, place, dtype) -> None:
    generator = np.random.default_rng(1)
    parts = [(generator.random(1001) * 30).astype(dtype) for _ in range(7)]
    results, _ = sums(parts, Exchange(reduce=reduce, segment_bytes=256), PLACES[place](7))
    assert len({result.tobytes() for result in results}) == 1
    np.testing.assert_allclose(results[0], np.sum(parts, axis=0, dtype=dtype), rtol=1e-5)


@settings(deadline=None, max_examples=40)
@given(
    reduce=st.sampled_from(REDUCES),
    place=st.sampled_from(sorted(PLACES)),
    size=st.integers(2, 8),
    length=st.integers(1, 9000),
    spread=st.integers(0, 30),
    seed=st.integers(0, 1000),
)
def test_half_loses_little_and_the_same_on_all_ranks(
    reduce: str, place: str, size: int, length: int, spread: int, seed: int
) -> None:
    """Each of the additions on the way rounds once: to 2^-11, of what has been summed so far."""
    generator = np.random.default_rng(seed)
    scale = np.exp2(generator.integers(-spread, spread + 1, length))
    parts = [(generator.standard_normal(length) * scale).astype(np.float32) for _ in range(size)]
    exchange = Exchange(reduce=reduce, codec="half", segment_bytes=8192)  # type: ignore[arg-type]
    results, _ = sums(parts, exchange, PLACES[place](size))
    assert len({result.tobytes() for result in results}) == 1
    exact = np.sum(parts, axis=0, dtype=np.float64)
    sizes = np.sum(np.abs(parts), axis=0, dtype=np.float64)
    floor = 2.0**-38 * sizes.max()
    assert np.all(np.abs(results[0] - exact) <= (size + 1) * (2.0**-11 * sizes + floor))


@pytest.mark.parametrize(("codec", "number_bytes"), [("none", 4), ("half", 2 + 2 / 1024)])
def test_a_ring_sends_what_the_formula_says(codec, number_bytes) -> None:
    size, length = 4, 4 * 8 * 1024
    exchange = Exchange(codec=codec, segment_bytes=32 * 1024)
    _, transports = sums(whole_numbers(size, length, 0), exchange, [])
    expected = 2 * (size - 1) / size * length * number_bytes
    assert [transport.sent_bytes for transport in transports] == [expected] * size


def test_hierarchical_takes_the_same_bytes_and_fewer_steps() -> None:
    """3 switches of 4: 2(m-1) + 2(s-1) steps, and 2(m-1)/m + 2(s-1)/(s m) of the data."""
    length, switches = 12 * 1024, [switch for switch in "abc" for _ in range(4)]
    parts = whole_numbers(12, length, 0)
    _, transports = sums(parts, Exchange(reduce="hierarchical"), switches)
    data_bytes = 4 * length
    expected = 2 * 3 / 4 * data_bytes + 2 * 2 / 3 * data_bytes / 4
    assert [transport.sent_bytes for transport in transports] == [expected] * 12
    assert [transport.messages for transport in transports] == [2 * 3 + 2 * 2] * 12
    _, ring = sums(parts, Exchange(), switches)
    assert {transport.messages for transport in ring} == {2 * 11}


def test_what_is_not_finite_stays_so() -> None:
    parts = whole_numbers(3, 3000, 0)
    parts[1][7], parts[2][2500] = np.nan, -np.inf
    results, _ = sums(parts, Exchange(codec="half"), [])
    for result in results:
        assert np.isnan(result[7])
        assert result[2500] == -np.inf
        assert np.isfinite(np.delete(result, [7, 2500])).all()


@settings(deadline=None, max_examples=100)
@given(
    numbers=st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=50),
    repeat=st.integers(1, 60),
    cut=st.integers(0, 3),
)
def test_half_passes_on_what_it_got_to_the_bit(numbers: list[float], repeat: int, cut: int) -> None:
    """However the data are cut on the next ring: blocks do not change."""
    half, data = CODECS["half"], np.array(numbers * repeat, np.float32)

    def passed_on(data: np.ndarray, cuts: Sequence[int]) -> np.ndarray:
        result = np.empty_like(data)
        for start, end in itertools.pairwise([0, *cuts, len(data)]):
            part = data[start:end]
            wire = np.zeros(half.wire_bytes(part.size, 4), np.uint8)
            half.encode(part, wire)
            half.decode(wire, result[start:end])
        return result

    first = passed_on(data, [])
    cuts = [min(cut * half.grain, len(data))]
    assert passed_on(first, cuts).tobytes() == first.tobytes()


@pytest.mark.parametrize(("chunk_kib", "pieces"), [(60, 1), (120, 2), (480, 2), (3 * 1024, 6)])
def test_a_chunk_goes_in_pieces_so_that_the_next_step_need_not_wait(chunk_kib, pieces) -> None:
    """Neither below 60 KiB nor above the plan's segments (512 KiB)."""
    _, transports = sums(whole_numbers(2, 2 * chunk_kib * 256, 0), Exchange(), [])
    assert [transport.messages for transport in transports] == [2 * pieces] * 2
