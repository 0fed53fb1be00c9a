"""A transport between threads of one process: the ring without MPI."""

import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np


class Loopback:
    """Rank `rank` of a world in which every message is copied through a queue."""

    def __init__(self, rank: int, links: list[list[queue.SimpleQueue]]) -> None:
        self.rank, self.size, self._links = rank, len(links), links

    def send(self, data: np.ndarray, peer: int) -> bool:
        self._links[self.rank][peer].put(data.copy())
        return True

    def receive(self, data: np.ndarray, peer: int) -> tuple[np.ndarray, int]:
        return data, peer

    def done(self, pending: Any) -> bool:
        if pending is True:
            return True
        target, peer = pending
        try:
            target[...] = self._links[peer][self.rank].get_nowait()
        except queue.Empty:
            return False
        return True

    def close(self) -> None:
        pass


def world(size: int) -> list[Loopback]:
    links = [[queue.SimpleQueue() for _ in range(size)] for _ in range(size)]
    return [Loopback(rank, links) for rank in range(size)]


def on_all_ranks[T](size: int, work: Callable[[Loopback], T]) -> list[T]:
    """What `work` returns on each rank, every rank in a thread of its own."""
    results: dict[int, T | BaseException] = {}

    def run(transport: Loopback) -> None:
        try:
            results[transport.rank] = work(transport)
        except BaseException as error:
            results[transport.rank] = error

    threads = [threading.Thread(target=run, args=(each,)) for each in world(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results.values():
        if isinstance(result, BaseException):
            raise result
    return [results[rank] for rank in range(size)]  # type: ignore[misc]
