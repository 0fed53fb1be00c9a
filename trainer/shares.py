"""Who computes how many samples; sums stay constant. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def largest_remainder(total: int, weights: Sequence[int]) -> list[int]:
    """`total` split in proportion to `weights` (not all zero) into whole numbers with that sum.

    Those with the largest remainders get one more; the first of equals.
    """
    whole = sum(weights)
    exact = [Fraction(total * weight, whole) for weight in weights]
    shares = [int(each) for each in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: (shares[i] - exact[i], i))
    for i in by_remainder[: total - sum(shares)]:
        shares[i] += 1
    return shares


def equal_shares(total: int, count: int) -> list[int]:
    """`total` over `count` phones, as equal as whole numbers can be."""
    return largest_remainder(total, [1] * count)


def part_of(shares: Sequence[int], rank: int) -> slice:
    """Where the share of `rank` lies when the shares stand one after another."""
    start = sum(shares[:rank])
    return slice(start, start + shares[rank])


def smallest_part(shares: Sequence[int], accumulate: int) -> int:
    """The fewest samples that any rank which has some computes with at a time; 0 if none has."""
    parts = [equal_shares(share, accumulate) for share in shares if share > 0]
    return min((part for rank in parts for part in rank if part), default=0)
