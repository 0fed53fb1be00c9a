"""The reduces by name. Each sums over all ranks and leaves the same bits on all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from trainer.exchange.codec import PLAIN, Codec
from trainer.exchange.hierarchical import Hierarchical
from trainer.exchange.ring import Progress, Ring
from trainer.exchange.transport import MpiTransport
from trainer.formats import Exchange


class World(Protocol):
    """How a rank is joined to the others: a transport, or a library's own group."""

    rank: int
    size: int

    def progress(self) -> bool:
        """Let what is under way move; False if no reduce has anything to do because of it."""
        ...

    def close(self) -> None: ...


class Reduce(Protocol):
    def all_reduce(self, data: np.ndarray, codec: Codec = PLAIN, lane: int = 0) -> Progress:
        """Sum `data` (flat, contiguous; equally long on all ranks) over the ranks, in place.

        What is under way at the same time needs lanes of its own, the same on all ranks. Between
        two steps of any of them the world is to progress.
        """
        ...


class Reference:
    """The sum of the library that joins the ranks, for comparison; it has no codec."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def all_reduce(self, data: np.ndarray, _codec: Codec = PLAIN, _lane: int = 0) -> Progress:
        if self._world.size > 1 and data.size:
            self._world.all_reduce(data)
            yield True


def open_world(exchange: Exchange, names: Sequence[str]) -> World:
    """Join the other ranks; `names` are the phones by rank. To be called where it is used."""
    if exchange.reduce == "gloo":
        # torch is imported for this only: the other reduces work without it.
        from trainer.exchange.gloo import GlooWorld

        return GlooWorld()
    return MpiTransport(names)


def build(exchange: Exchange, world: Any, switches: Sequence[str]) -> Reduce:
    """The reduce of the plan over `world`; `switches` names each rank's, if the plan does."""
    segment_bytes = exchange.segment_bytes
    builders: dict[str, Callable[[], Reduce]] = {
        "ring": lambda: Ring(world, segment_bytes),
        "hierarchical": lambda: Hierarchical(world, segment_bytes, switches),
        "mpi": lambda: Reference(world),
        "gloo": lambda: Reference(world),
    }
    return builders[exchange.reduce]()
