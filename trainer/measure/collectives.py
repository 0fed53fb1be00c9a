"""Time collectives between the phones of a launch: one method, by size and by a model's tensors.

NumPy only, but for gloo and for the tensor lists of models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trainer.errors import TrainerError
from trainer.exchange.engine import Engine
from trainer.exchange.reduce import open_world
from trainer.formats import (
    Collectives,
    CollectivesSpec,
    CollectiveTime,
    Exchange,
    FormatError,
    ModelSpec,
    Operation,
    Way,
)
from trainer.measure.mpi import MpiCollectives, choose_tuned_ring
from trainer.measure.patterns import many_to_many, one_to_many

_FLOAT_BYTES = 4
_WARM_UP_FLOATS = 1 << 16
_EXACT = 97
"""Small whole numbers: their sum over any number of phones is exact in float32."""


class Wrong(TrainerError):
    """A collective did not give what it must give, or the world is not the one that was planned."""


class Reducer(Protocol):
    """One way to sum float32 arrays over all ranks, in place."""

    rank: int
    size: int

    def sum(self, data: np.ndarray) -> None: ...

    def sum_each(self, parts: Sequence[np.ndarray]) -> None:
        """Several arrays, as a step posts them: one after the other without waiting between."""

    def close(self) -> None: ...


class Exchanger:
    """The trainer's exchange, with its thread, as a run uses it."""

    def __init__(self, exchange: Exchange, names: Sequence[str], switches: Sequence[str]) -> None:
        self._engine = Engine(lambda: open_world(exchange, names), exchange, switches)
        self._by_gloo = exchange.reduce == "gloo"
        self.rank, self.size = self._engine.rank, self._engine.size

    def sum(self, data: np.ndarray) -> None:
        self._engine.all_reduce(data)

    def sum_each(self, parts: Sequence[np.ndarray]) -> None:
        for bucket in [self._engine.post(part) for part in parts]:
            self._engine.wait(bucket)

    def close(self) -> None:
        """Leave together. gloo's group is not destroyed: its end was seen to wait for ever for
        its own threads (torch 2.6), and this process ends at once anyway."""
        if self._by_gloo:
            self.sum(np.zeros(1, np.float32))
        else:
            self._engine.close()


def measure(spec: CollectivesSpec) -> Collectives:
    """Every rank takes part; all return the same times. Raises Wrong."""
    tensors, missing = _tensor_lists(spec.models)
    reducer = _open(spec)
    if reducer.size != len(spec.phones):
        raise Wrong(f"the world has {reducer.size} ranks, {len(spec.phones)} phones were planned")
    _connect(reducer)
    clock = _Clock(reducer, spec.repeats)
    times = [clock.all_reduce(spec.method, size) for size in spec.sizes_bytes]
    for name, lengths in tensors.items():
        times += clock.model(spec.method, name, lengths)
    if spec.with_patterns and isinstance(reducer, MpiCollectives):
        for size in spec.sizes_bytes:
            times += clock.patterns(reducer, size)
    reducer.close()
    return Collectives(spec.phones, spec.method, tuple(times), tuple(missing))


def _connect(reducer: Reducer) -> None:
    """MPI connects two ranks when they first talk; that is not what is measured."""
    reducer.sum(np.zeros(_WARM_UP_FLOATS, np.float32))
    if isinstance(reducer, MpiCollectives):
        data = np.zeros(reducer.size, np.float32)
        many_to_many(reducer.transport, data, np.empty_like(data))


def _open(spec: CollectivesSpec) -> Reducer:
    match spec.method:
        case "mpi":
            return MpiCollectives(spec.phones)
        case "mpi-tuned":
            choose_tuned_ring()
            return MpiCollectives(spec.phones)
        case "ring" | "hierarchical" | "gloo":
            return Exchanger(Exchange(reduce=spec.method), spec.phones, spec.switches)


def _tensor_lists(models: Sequence[ModelSpec]) -> tuple[dict[str, list[int]], list[str]]:
    """Model -> the lengths of its tensors in the order in which gradients become ready; and which
    are missing, with the reason: that is no reason to measure nothing."""
    lists: dict[str, list[int]] = {}
    missing = []
    for spec in models:
        try:
            import torch

            from trainer.models import build

            with torch.device("meta"):
                parameters = list(build(spec).parameters())
            lists[spec.name] = [p.numel() for p in reversed(parameters) if p.requires_grad]
        except (ModuleNotFoundError, FormatError) as error:
            missing.append(f"model {spec.name}: {error}")
    return lists, missing


@dataclass(frozen=True, slots=True)
class _Around:
    """What is done before each repeat, and whether the numbers are right after it."""

    prepare: Callable[[], None]
    check: Callable[[], bool]


class _Clock:
    """Times collectives. All ranks start together, and the slowest one counts."""

    def __init__(self, reducer: Reducer, repeats: int) -> None:
        self._reducer, self._repeats = reducer, repeats
        self._rank, self._size = reducer.rank, reducer.size

    def all_reduce(self, method: str, size_bytes: int) -> CollectiveTime:
        """One array of so many bytes."""
        data = np.empty(max(1, size_bytes // _FLOAT_BYTES), np.float32)
        seconds, cpu = self._timed(lambda: self._reducer.sum(data), self._sum_of(data))
        return CollectiveTime("all-reduce", method, data.nbytes, seconds, cpu)

    def model(self, method: str, name: str, lengths: Sequence[int]) -> Iterator[CollectiveTime]:
        """A model's gradients in one buffer, and tensor by tensor."""
        buffer = np.empty(sum(lengths), np.float32)
        parts = np.split(buffer, np.cumsum(lengths)[:-1])
        around = self._sum_of(buffer)
        works: dict[Way, Callable[[], None]] = {
            "packed": lambda: self._reducer.sum(buffer),
            "chunk-wise": lambda: self._reducer.sum_each(parts),
        }
        for way, work in works.items():
            seconds, cpu = self._timed(work, around)
            yield CollectiveTime(
                "all-reduce",
                method,
                buffer.nbytes,
                seconds,
                cpu,
                model=name,
                way=way,
                tensors=len(lengths),
            )

    def patterns(self, mpi: MpiCollectives, size_bytes: int) -> Iterator[CollectiveTime]:
        """One-to-many and many-to-many, by plain messages and by MPI's own collectives."""
        length = max(1, size_bytes // (_FLOAT_BYTES * self._size)) * self._size
        data, received = np.empty(length, np.float32), np.empty(length, np.float32)
        spread = self._of_the_first(data)
        swapped = self._from_each(data, received)
        works: list[tuple[Operation, str, Callable[[], None], _Around]] = [
            ("one-to-many", "messages", lambda: one_to_many(mpi.transport, data), spread),
            ("one-to-many", "mpi", lambda: mpi.broadcast(data), spread),
            (
                *("many-to-many", "messages"),
                lambda: many_to_many(mpi.transport, data, received),
                swapped,
            ),
            ("many-to-many", "mpi", lambda: mpi.all_to_all(data, received), swapped),
        ]
        for operation, method, work, around in works:
            seconds, cpu = self._timed(work, around)
            yield CollectiveTime(operation, method, data.nbytes, seconds, cpu)

    def _timed(self, work: Callable[[], None], around: _Around) -> tuple[tuple[float, ...], float]:
        """Seconds of the slowest rank by repeat, and CPU seconds of an average rank in one."""
        times = np.zeros((self._repeats, self._size), np.float32)
        cpu = np.zeros(1, np.float32)
        for repeat in range(self._repeats):
            around.prepare()
            self._reducer.sum(np.zeros(1, np.float32))  # so that all start together
            began, cpu_began = time.perf_counter(), time.process_time()
            work()
            times[repeat, self._rank] = time.perf_counter() - began
            cpu[0] += time.process_time() - cpu_began
            if not around.check():
                raise Wrong(f"rank {self._rank}: a collective gave wrong numbers")
        self._reducer.sum(times.reshape(-1))
        self._reducer.sum(cpu)
        slowest = tuple(float(seconds) for seconds in times.max(axis=1))
        return slowest, float(cpu[0]) / (self._size * self._repeats)

    def _sum_of(self, data: np.ndarray) -> _Around:
        pattern = np.arange(data.size, dtype=np.float32) % _EXACT
        ranks = self._size * (self._size - 1) / 2

        def prepare() -> None:
            np.add(pattern, self._rank, out=data)

        return _Around(prepare, lambda: np.array_equal(data, pattern * self._size + ranks))

    def _of_the_first(self, data: np.ndarray) -> _Around:
        pattern = np.arange(data.size, dtype=np.float32) % _EXACT

        def prepare() -> None:
            data[...] = pattern if self._rank == 0 else -1

        return _Around(prepare, lambda: np.array_equal(data, pattern))

    def _from_each(self, data: np.ndarray, received: np.ndarray) -> _Around:
        ranks = np.arange(self._size, dtype=np.float32)[:, None]

        def prepare() -> None:
            data[...], received[...] = self._rank, -1

        return _Around(prepare, lambda: bool((received.reshape(self._size, -1) == ranks).all()))
