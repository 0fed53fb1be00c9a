"""The communication thread: the only one that calls MPI, so that exchange overlaps compute."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from trainer.errors import TrainerError
from trainer.exchange.codec import CODECS, PLAIN, Codec
from trainer.exchange.reduce import Reduce, World, build, open_world
from trainer.exchange.ring import LANES, Progress
from trainer.formats import Exchange, Plan

# At 200 Mb/s as fast as polling, for 0.3 instead of 0.7 CPU seconds each 37.5 MB, by a benchmark.
_SHORTEST_SLEEP_SECONDS = 100e-6
_CALLS_PER_DOUBLING = 2
_MOST_DOUBLINGS = 3


class EngineError(TrainerError):
    """The exchange failed or was given up; the cause is in the message."""


class Bucket:
    """A part of the gradients on its way through the exchange."""

    __slots__ = ("codec", "data", "error", "finished", "on_end", "seconds")

    def __init__(
        self, data: np.ndarray, codec: Codec, on_end: Callable[[Bucket], None] | None
    ) -> None:
        self.data, self.codec, self.on_end = data, codec, on_end
        self.finished = threading.Event()
        self.error: BaseException | None = None
        self.seconds = 0.0
        """Time that the communication thread spent on it; with others side by side, the time since
        the one before it ended."""


class Engine:
    """Sums buckets over all ranks, in the order in which they are posted (equal on all ranks).

    `join` joins the ranks. It is called in the communication thread, since MPI wants to be
    initialised where it is used. `switches` names each rank's switch, for reduces that ask.
    """

    def __init__(
        self, join: Callable[[], World], exchange: Exchange, switches: Sequence[str] = ()
    ) -> None:
        self._join, self._exchange, self._switches = join, exchange, switches
        self._codec = CODECS[exchange.codec]
        self.lossy = not self._codec.plain
        self._posted: queue.SimpleQueue[Bucket | None] = queue.SimpleQueue()
        self._opened: queue.SimpleQueue[tuple[int, int] | BaseException] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._told = 0.0  # until when the thread's time is counted in a bucket's
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name="exchange", daemon=True)
        self._thread.start()
        answer = self._opened.get()
        if isinstance(answer, BaseException):
            raise EngineError(str(answer)) from answer
        self.rank, self.size = answer
        self.thread_id = self._thread.native_id
        """As the kernel numbers the communication thread."""

    @classmethod
    def of(cls, plan: Plan) -> Engine:
        """The engine of a rank of the plan's run. Raises EngineError if the ranks do not meet."""
        exchange = plan.exchange
        return cls(lambda: open_world(exchange, plan.phones), exchange, plan.switches)

    def post(
        self, data: np.ndarray, *, exact: bool = False,
        on_end: Callable[[Bucket], None] | None = None,
    ) -> Bucket:  # fmt: skip
        """Begin to sum `data` in place; it must be left alone until `wait` returns.

        `exact` leaves the codec out. `on_end` is called in the communication thread.
        """
        bucket = Bucket(data, PLAIN if exact else self._codec, on_end)
        self._posted.put(bucket)
        return bucket

    def wait(self, bucket: Bucket) -> None:
        """Return when the sum stands in the bucket's data; raise EngineError if it never will."""
        bucket.finished.wait()
        if bucket.error is not None:
            raise EngineError(f"gradient exchange: {bucket.error}") from bucket.error

    def all_reduce(self, data: np.ndarray) -> np.ndarray:
        """Sum `data` exactly, in place."""
        self.wait(self.post(data, exact=True))
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
            world = self._join()
            reduce = build(self._exchange, world, self._switches)
        except BaseException as error:
            self._opened.put(error)
            return
        self._opened.put((world.rank, world.size))
        self._carry(world, reduce)
        if self._failure is None and not self._abandoned.is_set():
            try:
                world.close()
            except BaseException as error:
                self._failure = error

    def _carry(self, world: World, reduce: Reduce) -> None:
        """Sum what is posted, several buckets side by side, until the end is posted."""
        under_way: dict[int, tuple[Bucket, Progress]] = {}
        begun = idle_calls = 0
        taking = moved = True
        while taking or under_way:
            lane = begun % LANES
            if taking and lane not in under_way and not (under_way and self._posted.empty()):
                bucket = self._posted.get()
                if not under_way:
                    self._told = time.perf_counter()
                if bucket is None:
                    taking = False
                else:
                    under_way[lane] = bucket, reduce.all_reduce(bucket.data, bucket.codec, lane)
                    begun, moved = begun + 1, True
            if self._progress(world) or moved:
                steps = [self._step(*each) for each in under_way.values()]
                moved = any(steps)
                under_way = {
                    lane: each for lane, each in under_way.items() if not each[0].finished.is_set()
                }
            if under_way and not moved:
                _idle(idle_calls)
                idle_calls += 1
            else:
                idle_calls = 0

    def _progress(self, world: World) -> bool:
        """Once for all that is under way; False if there is nothing to do for any."""
        try:
            return world.progress() or self._abandoned.is_set()
        except BaseException as error:
            self._failure = self._failure or error
            return True

    def _step(self, bucket: Bucket, sum_: Progress) -> bool:
        """Go on with the sum, or end it; whether anything moved."""
        try:
            # After a failure the ranks no longer agree on what comes next: nothing is sent.
            if self._failure is not None:
                raise self._failure
            if self._abandoned.is_set():
                raise EngineError("given up")
            return next(sum_)
        except StopIteration:
            pass
        except BaseException as error:
            self._failure = bucket.error = error
        now = time.perf_counter()
        bucket.seconds, self._told = now - self._told, now
        bucket.finished.set()
        if bucket.on_end is not None:
            bucket.on_end(bucket)
        return True


def _idle(calls: int) -> None:
    """Sleep rather than poll: several phones may share a core here, and on a phone heat is
    throughput. Short enough to keep the sockets' buffers from running empty."""
    doublings = min(calls // _CALLS_PER_DOUBLING, _MOST_DOUBLINGS)
    time.sleep(_SHORTEST_SLEEP_SECONDS * 2**doublings)
