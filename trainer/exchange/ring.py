"""Ring all-reduce: reduce-scatter, then all-gather, cut into segments that flow one by one.

Bandwidth-optimal: each rank sends 2(p-1)/p of the data (Patarasuk and Yuan, 2009). A segment is
passed on as soon as it has arrived and been added, so adding hides behind the transfer and no
rank waits for a whole chunk.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trainer.exchange.codec import PLAIN, Codec
from trainer.exchange.transport import Pending, Transport

WINDOW = 3
"""Messages under way in each direction: enough to hide MPI's handshake for large messages, few
enough that they do not share the link and all arrive late."""

SEGMENTS = 2
"""Of a chunk at least, as long as they do not become smaller than EAGER_BYTES."""

EAGER_BYTES = 60 * 1024
"""What Open MPI's TCP sends without asking the receiver first (btl_tcp_eager_limit, 64 KiB with
its header): smaller pieces would gain nothing."""

LANES = 3
"""Sums under way side by side: where one waits for a neighbour, or has nothing left to start, the
next has the link."""

type Progress = Iterator[bool]
"""A sum on its way: each step does what can be done at once and says whether anything moved."""


class Ring:
    """All-reduce over all ranks of `transport`; `segment_bytes` is the unit of the pipeline."""

    def __init__(self, transport: Transport, segment_bytes: int) -> None:
        self._transport, self._segment_bytes = transport, segment_bytes
        self._slots = [Slots() for _ in range(LANES)]

    def all_reduce(self, data: np.ndarray, codec: Codec = PLAIN, lane: int = 0) -> Progress:
        """Sum `data` (flat, contiguous; equally long on all ranks) over the ranks, in place.

        All ranks end with the same bits: each chunk is summed along the ring in one order. What
        is under way at the same time needs lanes of its own, the same on all ranks.
        """
        transport = self._transport
        circle = Circle(tuple(range(transport.size)), transport.rank, lane)
        layout = Layout.of(data, circle, self._segment_bytes, codec)
        slots = self._slots[lane]
        yield from together([Pass(transport, circle, layout, data, codec, slots)])
        slots.release()


@dataclass(frozen=True, slots=True)
class Circle:
    """Ranks that stand in a ring, this one at `position`. `tag` keeps the messages of circles
    apart that share neighbours."""

    ranks: tuple[int, ...]
    position: int
    tag: int = 0

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def left(self) -> int:
        return self.ranks[self.position - 1]

    @property
    def right(self) -> int:
        return self.ranks[(self.position + 1) % self.size]


def chunk_bounds(length: int, size: int, grain: int) -> list[int]:
    """Where the `size` chunks of `length` numbers begin, and the end; on multiples of `grain`."""
    grains = -(-length // grain)
    return [min(length, chunk * grains // size * grain) for chunk in range(size + 1)]


@dataclass(frozen=True, slots=True)
class Layout:
    """Which part of the data is the n-th message of this rank.

    The data has `size` chunks of `segments` segments. Message n carries segment n % segments in
    step n // segments: in step s the rank at position r sends chunk r - s and receives chunk
    r - s - 1. After the reduce-scatter it holds the sum of chunk r + 1.
    """

    bounds: list[int]
    position: int
    size: int
    segments: int
    segment_length: int

    @classmethod
    def of(cls, data: np.ndarray, circle: Circle, segment_bytes: int, codec: Codec) -> Layout:
        bounds = chunk_bounds(data.size, circle.size, codec.grain)
        longest = max(end - start for start, end in itertools.pairwise(bounds))
        # A chunk in one piece would wait for itself: its next step begins when it is all there.
        pieces = max(EAGER_BYTES, longest * data.itemsize // SEGMENTS)
        grains = max(1, min(segment_bytes, pieces) // data.itemsize // codec.grain)
        segment_length = grains * codec.grain
        segments = max(1, -(-longest // segment_length))
        return cls(bounds, circle.position, circle.size, segments, min(segment_length, longest))

    @property
    def messages(self) -> int:
        return 2 * self.gather_from

    @property
    def gather_from(self) -> int:
        """The first message of the all-gather."""
        return (self.size - 1) * self.segments

    def sent(self, message: int) -> slice:
        return self._slice(self.position - message // self.segments, message % self.segments)

    def received(self, message: int) -> slice:
        return self._slice(self.position - message // self.segments - 1, message % self.segments)

    def _slice(self, chunk: int, segment: int) -> slice:
        chunk %= self.size
        end = self.bounds[chunk + 1]
        start = min(self.bounds[chunk] + segment * self.segment_length, end)
        return slice(start, min(start + self.segment_length, end))


class Slots:
    """Memory for messages under way, kept from one all-reduce to the next."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)
        self._taken = 0

    def take(self, slot_bytes: int) -> np.ndarray:
        """WINDOW rows of so many bytes, until `release`."""
        slot_bytes = -(-slot_bytes // 8) * 8  # whole numbers of every type
        begin, self._taken = self._taken, self._taken + WINDOW * slot_bytes
        if self._taken > len(self._memory):
            # Rows that are in use keep the old memory alive.
            self._memory = np.empty(2 * self._taken, np.uint8)
        return self._memory[begin : self._taken].reshape(WINDOW, slot_bytes)

    def release(self) -> None:
        self._taken = 0


class Pass:
    """A reduce-scatter, an all-gather, or both, on its way round a circle.

    Messages are numbered; they start and end in that order.
    """

    def __init__(
        self, transport: Transport, circle: Circle, layout: Layout, data: np.ndarray,
        codec: Codec, slots: Slots, *, scatter: bool = True, gather: bool = True,
    ) -> None:  # fmt: skip
        self._transport, self._circle, self._layout = transport, circle, layout
        self._data, self._codec, self._slots = data, codec, slots
        slot_bytes = codec.wire_bytes(layout.segment_length, data.itemsize)
        self._inbox = slots.take(slot_bytes)
        self._outbox = None if codec.plain else slots.take(slot_bytes)
        self._sending: deque[Pending] = deque()
        self._receiving: deque[tuple[Pending, np.ndarray]] = deque()
        first = 0 if scatter else layout.gather_from
        self._end = layout.messages if gather else layout.gather_from
        self._sent = self._received = first  # complete messages

    @property
    def finished(self) -> bool:
        return min(self._sent, self._received) >= self._end

    def advance(self) -> bool:
        """Start what may start, end what has ended; whether anything has."""
        moved = False
        while True:
            self._start_receives()
            self._start_sends()
            if not self._finish_send() | self._finish_receive():
                return moved
            moved = True

    def _start_receives(self) -> None:
        layout = self._layout
        while len(self._receiving) < WINDOW:
            message = self._received + len(self._receiving)
            # In the all-gather the sum overwrites what this rank sent size - 1 steps before.
            overwritten = message - layout.gather_from
            if message >= self._end or overwritten >= self._sent:
                return
            target = self._data[layout.received(message)]
            if overwritten < 0 or not self._codec.plain:
                bytes_ = self._codec.wire_bytes(target.size, target.itemsize)
                target = self._inbox[message % WINDOW, :bytes_]
            circle = self._circle
            pending = self._transport.receive(target, circle.left, circle.tag)
            self._receiving.append((pending, target))

    def _start_sends(self) -> None:
        layout = self._layout
        while len(self._sending) < WINDOW:
            message = self._sent + len(self._sending)
            # What is sent now is what came in, and was added, one step before.
            if message >= min(self._end, self._received + layout.segments):
                return
            wire = self._encoded(message)
            circle = self._circle
            self._sending.append(self._transport.send(wire, circle.right, circle.tag))

    def _encoded(self, message: int) -> np.ndarray:
        part = self._data[self._layout.sent(message)]
        if self._outbox is None:
            return part
        wire = self._outbox[message % WINDOW, : self._codec.wire_bytes(part.size, part.itemsize)]
        self._codec.encode(part, wire)
        if 0 <= message - self._layout.gather_from < self._layout.segments:
            # This rank's own sum: it keeps of it what the others get.
            self._codec.decode(wire, part)
        return wire

    def _finish_send(self) -> bool:
        if not (self._sending and self._transport.done(self._sending[0])):
            return False
        self._sending.popleft()
        self._sent += 1
        return True

    def _finish_receive(self) -> bool:
        if not (self._receiving and self._transport.done(self._receiving[0][0])):
            return False
        _, wire = self._receiving.popleft()
        part = self._data[self._layout.received(self._received)]
        if self._received < self._layout.gather_from:
            self._codec.add(wire.view(np.uint8), part)
        elif not self._codec.plain:
            self._codec.decode(wire, part)
        self._received += 1
        return True


def together(passes: Sequence[Pass]) -> Progress:
    """Carry all passes to their ends, side by side."""
    under_way = list(passes)
    while under_way := [each for each in under_way if not each.finished]:
        moved = [each.advance() for each in under_way]
        yield any(moved)
