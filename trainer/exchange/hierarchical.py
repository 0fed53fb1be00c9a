"""Hierarchical all-reduce: rings inside the switches, and rings across them.

Reduce-scatter inside each switch, all-reduce of each part between the phones that hold it (one a
switch), all-gather inside. With m phones on each of s switches that is 2(m-1) + 2(s-1) steps
where one ring over all takes 2(ms-1); an uplink carries 2(s-1)/s of the data each way.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from trainer.exchange.codec import PLAIN, Codec
from trainer.exchange.ring import (
    LANES,
    Circle,
    Layout,
    Pass,
    Progress,
    Slots,
    chunk_bounds,
    together,
)
from trainer.exchange.transport import Transport


class Hierarchical:
    """All-reduce over all ranks; `switches` names the switch of each."""

    def __init__(self, transport: Transport, segment_bytes: int, switches: Sequence[str]) -> None:
        self._transport, self._segment_bytes = transport, segment_bytes
        members: dict[str, list[int]] = {}
        for rank, switch in enumerate(switches):
            members.setdefault(switch, []).append(rank)
        self._groups = [tuple(ranks) for ranks in members.values()]
        own = members[switches[transport.rank]]
        self._inside = tuple(own)
        self._slots = [Slots() for _ in range(LANES)]

    def all_reduce(self, data: np.ndarray, codec: Codec = PLAIN, lane: int = 0) -> Progress:
        """Sum `data` (flat, contiguous; equally long on all ranks) over the ranks, in place.

        All ranks end with the same bits, whatever the numbers of phones on the switches. What is
        under way at the same time needs lanes of its own, the same on all ranks.
        """
        slots = self._slots[lane]
        inside = Circle(self._inside, self._inside.index(self._transport.rank), lane)
        yield from together([self._pass(data, inside, codec, slots, gather=False)])
        slots.release()
        across = self._across(data.size, codec.grain, lane)
        yield from together(
            [self._pass(data[part], circle, codec, slots) for part, circle in across]
        )
        slots.release()
        yield from together([self._pass(data, inside, codec, slots, scatter=False)])
        slots.release()

    def _across(self, length: int, grain: int, lane: int) -> list[tuple[slice, Circle]]:
        """The parts of which this rank holds its switch's sum, and who holds those of the others.

        A part goes from one cut to the next, wherever any switch cuts its chunks: with unequal
        numbers of phones a rank has several, with several circles of partners.
        """
        rank = self._transport.rank
        bounds = [chunk_bounds(length, len(group), grain) for group in self._groups]
        cuts = sorted({cut for each in bounds for cut in each})
        parts = []
        for tag, (start, end) in enumerate(itertools.pairwise(cuts), 1):
            # Position r holds chunk r + 1 after the reduce-scatter.
            holders = [
                group[_chunk_at(start, each) - 1]
                for group, each in zip(self._groups, bounds, strict=True)
            ]
            if rank in holders:
                circle = Circle(tuple(holders), holders.index(rank), tag * LANES + lane)
                parts.append((slice(start, end), circle))
        return parts

    def _pass(
        self, data: np.ndarray, circle: Circle, codec: Codec, slots: Slots,
        *, scatter: bool = True, gather: bool = True,
    ) -> Pass:  # fmt: skip
        layout = Layout.of(data, circle, self._segment_bytes, codec)
        return Pass(
            self._transport, circle, layout, data, codec, slots, scatter=scatter, gather=gather
        )


def _chunk_at(start: int, bounds: Sequence[int]) -> int:
    """The chunk that holds the number at `start`; empty chunks hold none."""
    return max(chunk for chunk, bound in enumerate(bounds[:-1]) if bound <= start)
