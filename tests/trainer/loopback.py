"""A transport between threads of one process: reduces without MPI."""

import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

type Links = dict[tuple[int, int, int], queue.SimpleQueue]


class Loopback:
    """Rank `rank` of a world in which every message is copied through a queue."""

    def __init__(self, rank: int, size: int, links: Links) -> None:
        self.rank, self.size, self._links = rank, size, links
        self.sent_bytes = self.messages = 0

    def send(self, data: np.ndarray, peer: int, tag: int = 0) -> bool:
        self.sent_bytes += data.nbytes
        self.messages += 1
        self._link(self.rank, peer, tag).put(data.tobytes())
        return True

    def receive(self, data: np.ndarray, peer: int, tag: int = 0) -> Any:
        return data, self._link(peer, self.rank, tag)

    def progress(self) -> bool:
        return True

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

    def _link(self, *ends: int) -> queue.SimpleQueue:
        return self._links.setdefault(ends, queue.SimpleQueue())  # one for both threads


def world(size: int) -> list[Loopback]:
    links: Links = {}
    return [Loopback(rank, size, links) for rank in range(size)]


def carry(sum_: Iterable[bool]) -> None:
    """To its end, letting the other ranks' threads run while nothing moves."""
    for moved in sum_:
        if not moved:
            time.sleep(0)


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
