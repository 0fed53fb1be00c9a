"""The communication thread: the only one that calls MPI, so that exchange overlaps compute."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from trainer.errors import TrainerError
from trainer.exchange.reduce import Ring
from trainer.exchange.transport import Transport
from trainer.formats import Exchange

# At 200 Mb/s as fast as polling, for 0.3 instead of 0.7 CPU seconds per 37.5 MB (benchmarks/ring).
_SHORTEST_SLEEP_SECONDS = 100e-6
_CALLS_PER_DOUBLING = 2
_MOST_DOUBLINGS = 3


class EngineError(TrainerError):
    """The exchange failed or was given up; the cause is in the message."""


class Bucket:
    """A part of the gradients on its way through the ring."""

    __slots__ = ("data", "error", "finished", "seconds")

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self.finished = threading.Event()
        self.error: BaseException | None = None
        self.seconds = 0.0
        """Time that the communication thread spent on it."""


class Engine:
    """Sums buckets over all ranks, in the order in which they are posted (equal on all ranks).

    `open_transport` is called in the communication thread, since MPI wants to be initialised
    where it is used.
    """

    def __init__(self, open_transport: Callable[[], Transport], exchange: Exchange) -> None:
        self._open_transport, self._exchange = open_transport, exchange
        self._posted: queue.SimpleQueue[Bucket | None] = queue.SimpleQueue()
        self._opened: queue.SimpleQueue[tuple[int, int] | BaseException] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name="exchange", daemon=True)
        self._thread.start()
        answer = self._opened.get()
        if isinstance(answer, BaseException):
            raise EngineError(str(answer)) from answer
        self.rank, self.size = answer

    def post(self, data: np.ndarray) -> Bucket:
        """Begin to sum `data` in place; it must be left alone until `wait` returns."""
        bucket = Bucket(data)
        self._posted.put(bucket)
        return bucket

    def wait(self, bucket: Bucket) -> None:
        """Return when the sum stands in the bucket's data; raise EngineError if it never will."""
        bucket.finished.wait()
        if bucket.error is not None:
            raise EngineError(f"gradient exchange: {bucket.error}") from bucket.error

    def all_reduce(self, data: np.ndarray) -> np.ndarray:
        self.wait(self.post(data))
        return data

    def broadcast(self, data: np.ndarray, root: int) -> np.ndarray:
        """The data of `root` on all ranks, in place: a sum to which the others add nothing."""
        if self.rank != root:
            data[...] = 0
        return self.all_reduce(data)

    def close(self) -> None:
        """Leave MPI in order, together with the other ranks."""
        self._posted.put(None)
        self._thread.join()
        if self._failure is not None:
            raise EngineError(f"leaving MPI: {self._failure}") from self._failure

    def abandon(self) -> None:
        """Stop communicating at once, without the other ranks; for a run that has failed."""
        self._abandoned.set()
        self._posted.put(None)
        self._thread.join(timeout=1)

    def _run(self) -> None:
        try:
            transport = self._open_transport()
        except BaseException as error:
            self._opened.put(error)
            return
        self._opened.put((transport.rank, transport.size))
        ring = Ring(transport, self._exchange.segment_bytes, self._idle)
        while (bucket := self._posted.get()) is not None:
            self._work(ring, bucket)
        if self._failure is None and not self._abandoned.is_set():
            try:
                transport.close()
            except BaseException as error:
                self._failure = error

    def _work(self, ring: Any, bucket: Bucket) -> None:
        began = time.perf_counter()
        try:
            # After a failure the ranks no longer agree on what comes next: nothing is sent.
            if self._failure is not None:
                raise self._failure
            ring.all_reduce(bucket.data)
        except BaseException as error:
            self._failure = bucket.error = error
        bucket.seconds = time.perf_counter() - began
        bucket.finished.set()

    def _idle(self, calls: int) -> None:
        """Sleep rather than poll: several phones may share a core here, and on a phone heat is
        throughput. Short enough to keep the sockets' buffers from running empty."""
        if self._abandoned.is_set():
            raise EngineError("given up")
        doublings = min(calls // _CALLS_PER_DOUBLING, _MOST_DOUBLINGS)
        time.sleep(_SHORTEST_SLEEP_SECONDS * 2**doublings)
