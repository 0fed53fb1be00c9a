"""Which of the phones that may be taken a job gets: on as few switches as possible. Pure.

Sets of phones are bits of a number here, bit i for the i-th phone in ring order: a queue of a
thousand jobs is decided on within milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Floor:
    """The phones of a rack in ring order, and which switch each hangs on ("": none is known)."""

    names: tuple[str, ...]
    switches: tuple[str, ...]
    _place: dict[str, int] = field(init=False, repr=False, compare=False)
    _blocks: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        blocks: dict[str, int] = {}
        for place, switch in enumerate(self.switches):
            blocks[switch] = blocks.get(switch, 0) | 1 << place
        object.__setattr__(self, "_place", {name: i for i, name in enumerate(self.names)})
        object.__setattr__(self, "_blocks", tuple(blocks.values()))

    def bits(self, names: Iterable[str]) -> int:
        """Those of `names` that the rack has."""
        found = 0
        for name in names:
            place = self._place.get(name)
            if place is not None:
                found |= 1 << place
        return found

    def phones(self, bits: int) -> tuple[str, ...]:
        """Names, in ring order."""
        return tuple(self.names[place] for place in _places(bits))

    def place(self, open_bits: int, count: int, beside: int = 0) -> int:
        """`count` of the phones in `open_bits`, on as few switches as that can be done.

        Whole switches first, the largest first; what is left to take goes where it fits most
        closely, so that room for a large job is not broken up. `beside`: phones that the job has
        already, whose switches cost nothing. Raises ValueError when there are too few.
        """
        if open_bits.bit_count() < count:
            raise ValueError(f"{count} phones wanted, {open_bits.bit_count()} are open")
        rooms = [room for block in self._blocks if (room := block & open_bits)]
        own = [
            room for room in rooms if any(block & beside and block & room for block in self._blocks)
        ]
        chosen = 0
        for some in (own, [room for room in rooms if room not in own]):
            taken = _fill(some, count - chosen.bit_count())
            chosen |= taken
        return chosen


def nearest(
    phones: Sequence[str],
    count: int,
    beside: Iterable[str] = (),
    switches: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Up to `count` of `phones`, which stand in ring order, on as few switches as that can be done.

    `switches`: phone -> its switch, where one is known. `beside`: as in `Floor.place`.
    """
    known, own = switches or {}, tuple(dict.fromkeys(beside))
    names = (*phones, *(phone for phone in own if phone not in phones))
    floor = Floor(names, tuple(known.get(name, "") for name in names))
    count = min(max(count, 0), len(phones))
    return floor.phones(floor.place(floor.bits(phones), count, floor.bits(own)))


def _fill(rooms: Sequence[int], count: int) -> int:
    """Up to `count` phones out of `rooms`."""
    chosen, left = 0, list(rooms)
    while count and left:
        fitting = [room for room in left if room.bit_count() >= count]
        # The first of equals is the first in ring order.
        room = min(fitting, key=int.bit_count) if fitting else max(left, key=int.bit_count)
        taken = _lowest(room, count)
        chosen |= taken
        count -= taken.bit_count()
        left.remove(room)
    return chosen


def _lowest(bits: int, count: int) -> int:
    """The first `count` of `bits`, or all of them."""
    found = 0
    while bits and count:
        lowest = bits & -bits
        found, bits, count = found | lowest, bits ^ lowest, count - 1
    return found


def _places(bits: int) -> Iterable[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
