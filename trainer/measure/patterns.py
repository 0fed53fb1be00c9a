"""One-to-many and many-to-many by plain messages: what the links carry without an algorithm."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from trainer.exchange.transport import Pending, Transport

_NAP_SECONDS = 100e-6


def one_to_many(transport: Transport, data: np.ndarray) -> None:
    """Rank 0 sends all of `data` to each other rank, to all at the same time."""
    if transport.rank:
        _finish(transport, [transport.receive(data, 0)])
    else:
        _finish(transport, [transport.send(data, peer) for peer in range(1, transport.size)])


def many_to_many(transport: Transport, data: np.ndarray, received: np.ndarray) -> None:
    """Each rank sends the n-th part of `data` to rank n and keeps its own."""
    rank, size = transport.rank, transport.size
    outgoing, incoming = (each.reshape(size, -1) for each in (data, received))
    incoming[rank] = outgoing[rank]
    # Each begins with its own neighbour, so that nobody is everybody's first.
    senders = [(rank - step) % size for step in range(1, size)]
    receivers = [(rank + step) % size for step in range(1, size)]
    pending = [transport.receive(incoming[peer], peer) for peer in senders]
    pending += [transport.send(outgoing[peer], peer) for peer in receivers]
    _finish(transport, pending)


def _finish(transport: Transport, pending: Sequence[Pending]) -> None:
    waiting = list(pending)
    while waiting := [each for each in waiting if not transport.done(each)]:
        transport.progress()
        time.sleep(_NAP_SECONDS)
