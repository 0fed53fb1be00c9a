"""Shares sum to the whole, are fair to within one, and stand one after another."""

from hypothesis import given
from hypothesis import strategies as st

from trainer.shares import batches, equal_shares, largest_remainder, part_of

WEIGHTS = st.lists(st.integers(0, 200), min_size=1, max_size=12).filter(any)


@given(total=st.integers(0, 5000), weights=WEIGHTS)
def test_the_sum_is_kept_and_nobody_is_off_by_one_or_more(total, weights) -> None:
    shares = largest_remainder(total, weights)
    assert sum(shares) == total
    for share, weight in zip(shares, weights, strict=True):
        assert abs(share - total * weight / sum(weights)) < 1
        assert share == 0 or weight > 0


def test_equal_shares_give_the_rest_to_the_first() -> None:
    assert equal_shares(10, 4) == [3, 3, 2, 2]
    assert equal_shares(2, 4) == [1, 1, 0, 0]


def test_speeds_are_weights() -> None:
    assert largest_remainder(96, [2, 1, 1]) == [48, 24, 24]


@given(total=st.integers(0, 100), weights=WEIGHTS)
def test_the_parts_cover_everything_once(total, weights) -> None:
    shares = largest_remainder(total, weights)
    taken = [i for rank in range(len(shares)) for i in range(total)[part_of(shares, rank)]]
    assert taken == list(range(total))


@given(start=st.integers(0, 50), samples=st.integers(0, 100), most=st.integers(1, 40))
def test_batches_cover_a_part_once_and_none_is_larger_than_allowed(start, samples, most) -> None:
    found = list(batches(slice(start, start + samples), most))
    assert [i for each in found for i in range(500)[each]] == list(range(start, start + samples))
    assert all(0 < each.stop - each.start <= most for each in found)
