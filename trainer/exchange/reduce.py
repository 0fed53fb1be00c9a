"""Ring all-reduce: reduce-scatter, then all-gather, cut into segments that flow one by one.

Bandwidth-optimal: each rank sends 2(p-1)/p of the data (Patarasuk and Yuan, 2009). A segment is
passed on as soon as it has arrived and been added, so adding hides behind the transfer and no
rank waits for a whole chunk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trainer.exchange.transport import Pending, Transport

WINDOW = 3
"""Messages under way in each direction: enough to hide MPI's handshake for large messages, few
enough that they do not share the link and all arrive late."""


class Ring:
    """All-reduce over all ranks of `transport`; `segment_bytes` is the unit of the pipeline.

    `idle` is called when there is nothing to do until a message arrives, with the number of
    times that it has been called in a row; it may raise to give up.
    """

    def __init__(
        self, transport: Transport, segment_bytes: int, idle: Callable[[int], None]
    ) -> None:
        self._transport = transport
        self._segment_bytes = segment_bytes
        self._idle = idle
        self._scratch = np.empty((WINDOW, segment_bytes), np.uint8)

    def all_reduce(self, data: np.ndarray) -> None:
        """Sum `data` (flat, contiguous; equally long on all ranks) over the ranks, in place.

        All ranks end with the same bits: each chunk is summed along the ring in one order.
        """
        transport = self._transport
        if transport.size == 1:
            return
        layout = _Layout.of(data, transport.rank, transport.size, self._segment_bytes)
        _Pass(transport, layout, data, self._scratch.view(data.dtype), self._idle).run()


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which part of the data is the n-th message of this rank.

    The data has `size` chunks of `segments` segments. Message n carries segment n % segments in
    step n // segments: in step s rank r sends chunk r - s and receives chunk r - s - 1.
    """

    length: int
    rank: int
    size: int
    segments: int
    segment_length: int

    @classmethod
    def of(cls, data: np.ndarray, rank: int, size: int, segment_bytes: int) -> _Layout:
        segment_length = max(1, segment_bytes // data.itemsize)
        longest_chunk = -(-data.size // size)
        return cls(
            data.size, rank, size, max(1, -(-longest_chunk // segment_length)), segment_length
        )

    @property
    def messages(self) -> int:
        return 2 * self.gather_from

    @property
    def gather_from(self) -> int:
        """The first message of the all-gather."""
        return (self.size - 1) * self.segments

    def sent(self, message: int) -> slice:
        return self._slice(self.rank - message // self.segments, message % self.segments)

    def received(self, message: int) -> slice:
        return self._slice(self.rank - message // self.segments - 1, message % self.segments)

    def _slice(self, chunk: int, segment: int) -> slice:
        chunk %= self.size
        end = (chunk + 1) * self.length // self.size
        start = min(chunk * self.length // self.size + segment * self.segment_length, end)
        return slice(start, min(start + self.segment_length, end))


class _Pass:
    """One all-reduce under way. Messages are numbered; they start and end in that order."""

    def __init__(
        self,
        transport: Transport,
        layout: _Layout,
        data: np.ndarray,
        scratch: np.ndarray,
        idle: Callable[[int], None],
    ) -> None:
        self._transport, self._layout, self._data, self._idle = transport, layout, data, idle
        self._slots = scratch
        self._left = (layout.rank - 1) % layout.size
        self._right = (layout.rank + 1) % layout.size
        self._sending: deque[Pending] = deque()
        self._receiving: deque[tuple[Pending, np.ndarray]] = deque()
        self._sent = self._received = 0  # complete messages

    def run(self) -> None:
        idle_calls = 0
        while min(self._sent, self._received) < self._layout.messages:
            self._start_receives()
            self._start_sends()
            if self._finish_send() | self._finish_receive():
                idle_calls = 0
            else:
                self._idle(idle_calls)
                idle_calls += 1

    def _start_receives(self) -> None:
        layout = self._layout
        while len(self._receiving) < WINDOW:
            message = self._received + len(self._receiving)
            # In the all-gather the sum overwrites what this rank sent size - 1 steps before.
            overwritten = message - layout.gather_from
            if message >= layout.messages or overwritten >= self._sent:
                return
            target = self._data[layout.received(message)]
            if overwritten < 0:
                target = self._slots[message % WINDOW, : target.size]
            self._receiving.append((self._transport.receive(target, self._left), target))

    def _start_sends(self) -> None:
        layout = self._layout
        while len(self._sending) < WINDOW:
            message = self._sent + len(self._sending)
            # What is sent now is what came in, and was added, one step before.
            if message >= min(layout.messages, self._received + layout.segments):
                return
            part = self._data[layout.sent(message)]
            self._sending.append(self._transport.send(part, self._right))

    def _finish_send(self) -> bool:
        if not (self._sending and self._transport.done(self._sending[0])):
            return False
        self._sending.popleft()
        self._sent += 1
        return True

    def _finish_receive(self) -> bool:
        if not (self._receiving and self._transport.done(self._receiving[0][0])):
            return False
        _, part = self._receiving.popleft()
        if self._received < self._layout.gather_from:
            self._data[self._layout.received(self._received)] += part
        self._received += 1
        return True
