"""Who computes how many samples; sums stay constant. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def bounded_shares(total: int, weights: Sequence[int], least: int) -> list[int]:
    """As `largest_remainder`, but each share is 0 or at least `least`.

    What would be less is raised to `least` at the cost of the others; while there is not enough
    for that, the lightest gets none. Raises ValueError if there is not enough for anybody.
    """
    dealt = largest_remainder(total, weights)
    if all(share == 0 or share >= least for share in dealt):
        return dealt
    if total < least:
        raise ValueError(f"{total} samples cannot be dealt in shares of at least {least}")
    free = [i for i, weight in enumerate(weights) if weight > 0]
    while least * len(free) > total:
        free.remove(min(reversed(free), key=lambda i: weights[i]))
    shares, left = [0] * len(weights), total
    while free:
        dealt = largest_remainder(left, [weights[i] for i in free])
        short = [i for i, share in zip(free, dealt, strict=True) if share < least]
        for i, share in zip(free, dealt, strict=True):
            shares[i] = least if short else share
        if not short:
            break
        free, left = [i for i in free if i not in short], left - least * len(short)
    return shares


def part_of(shares: Sequence[int], rank: int) -> slice:
    """Where the share of `rank` lies when the shares stand one after another."""
    start = sum(shares[:rank])
    return slice(start, start + shares[rank])


def batches(part: slice, most: int) -> Iterator[slice]:
    """`part` in pieces of `most` samples, the last of which may be smaller."""
    for start in range(part.start, part.stop, most):
        yield slice(start, min(start + most, part.stop))


def smallest_part(shares: Sequence[int], accumulate: int) -> int:
    """The fewest samples that any rank which has some computes with at a time; 0 if none has."""
    parts = [equal_shares(share, accumulate) for share in shares if share > 0]
    return min((part for rank in parts for part in rank if part), default=0)
