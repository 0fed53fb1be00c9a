"""A transport between threads of one process: reduces without MPI."""

import queue
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

type Links = defaultdict[tuple[int, int, int], queue.SimpleQueue]


class Loopback:
    """Rank `rank` of a world in which every message is copied through a queue."""

    def __init__(self, rank: int, size: int, links: Links) -> None:
        self.rank, self.size, self._links = rank, size, links
        self.sent_bytes = self.messages = 0

    def send(self, data: np.ndarray, peer: int, tag: int = 0) -> bool:
        self.sent_bytes += data.nbytes
        self.messages += 1
        self._links[self.rank, peer, tag].put(data.tobytes())
        return True

    def receive(self, data: np.ndarray, peer: int, tag: int = 0) -> Any:
        return data, self._links[peer, self.rank, tag]

    def done(self, pending: Any) -> bool:
        if pending is True:
            return True
        target, link = pending
        try:
            message = link.get_nowait()
        except queue.Empty:
            return False
        assert len(message) == target.nbytes
        target.view(np.uint8)[...] = np.frombuffer(message, np.uint8)
        return True

    def close(self) -> None:
        pass


def world(size: int) -> list[Loopback]:
    links: Links = defaultdict(queue.SimpleQueue)
    for sender in range(size):
        for receiver in range(size):
            for tag in range(4 * size):  # made here, since threads must not make them at once
                links[sender, receiver, tag]
    return [Loopback(rank, size, links) for rank in range(size)]


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
