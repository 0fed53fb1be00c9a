"""Reads the sources in the background and keeps one immutable snapshot of what they said.

A scrape never waits for a source. One that hangs holds its own thread, no second one is started
before it is back, and meanwhile its values are absent.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from exporters.metrics import (
    COLLECTOR_DURATION,
    COLLECTOR_LAST_SUCCESS,
    COLLECTOR_SUCCESS,
    Sample,
)
from exporters.sources import Source, Unavailable

LONGEST_BACKOFF_SECONDS = 60.0
MOST_SAMPLES = 150
"""Of one source: what has more is not what it was taken for."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one source said last. `samples` is empty if `error` is not None."""

    source: str
    duration_seconds: float
    samples: tuple[Sample, ...]
    error: str | None
    last_success: float | None
    """Unix time, by the phone's clock."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    time: float
    readings: tuple[Reading, ...] = ()

    def samples(self) -> Iterator[Sample]:
        """The values of the sources, and how each source fared."""
        for reading in self.readings:
            yield from reading.samples
            yield COLLECTOR_SUCCESS.sample(reading.error is None, reading.source)
            yield COLLECTOR_DURATION.sample(reading.duration_seconds, reading.source)
            if reading.last_success is not None:
                yield COLLECTOR_LAST_SUCCESS.sample(reading.last_success, reading.source)

    def document(self) -> dict[str, Any]:
        """As JSON for programs on the phone: metric name -> its samples."""
        metrics: dict[str, list[dict[str, Any]]] = {}
        for sample in self.samples():
            labels = dict(zip(sample.metric.labels, sample.labels, strict=True))
            metrics.setdefault(sample.metric.name, []).append(
                {"labels": labels, "value": sample.value}
            )
        errors = {r.source: r.error for r in self.readings if r.error is not None}
        return {"version": 1, "time": self.time, "errors": errors, "metrics": metrics}


class Sampler:
    """`tick` does what is due; `snapshot` may be read from any thread at any time."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._watches = [_Watch(source) for source in sources]
        self.snapshot = Snapshot(time.time())

    def tick(self) -> None:
        """Start every source that is due and free, then take each answer within its limit."""
        started = [(watch, call) for watch in self._watches if (call := watch.start())]
        for watch, call in started:
            watch.finish(call)
            readings = tuple(w.reading for w in self._watches if w.reading is not None)
            self.snapshot = Snapshot(time.time(), readings)


class _Call:
    """One reading under way, in a thread of its own."""

    def __init__(self, source: Source) -> None:
        self.started = time.monotonic()
        self._ended = math.inf
        self._source = source
        self._answer: tuple[Sample, ...] | Exception = RuntimeError("the reading died")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def answer(self) -> tuple[Sample, ...] | Exception:
        """What the source says within its limit; a later answer is out of date and ignored."""
        limit = self._source.limit_seconds
        self._thread.join(max(0.0, self.started + limit - time.monotonic()))
        return TimeoutError(f"no answer within {limit:g} s") if self.running else self._answer

    def duration_seconds(self) -> float:
        return min(self._ended, time.monotonic()) - self.started

    def _read(self) -> None:
        try:
            self._answer = possible(self._source.read())
        except Exception as error:
            self._answer = error
        finally:
            self._ended = time.monotonic()


def possible(told: Iterable[Sample]) -> tuple[Sample, ...]:
    """Those that a phone can have. Raises Unavailable where none is left of what was told, or where
    there is no end of it."""
    samples = tuple(islice(told, MOST_SAMPLES + 1))
    if len(samples) > MOST_SAMPLES:
        raise Unavailable(f"more than {MOST_SAMPLES} values")
    found = tuple(sample for sample in samples if sample.metric.is_possible(sample.value))
    if samples and not found:
        first = samples[0]
        raise Unavailable(f"{first.metric.name} cannot be {first.value:g}")
    return found


class _Watch:
    """One source over time: its newest reading, and when to ask again."""

    def __init__(self, source: Source) -> None:
        self.reading: Reading | None = None
        self._source = source
        self._call: _Call | None = None
        self._failures = 0
        self._due = 0.0

    def start(self) -> _Call | None:
        """None if it is not due, or still stuck in an earlier call."""
        if time.monotonic() < self._due or (self._call is not None and self._call.running):
            return None
        self._call = _Call(self._source)
        return self._call

    def finish(self, call: _Call) -> None:
        answer = call.answer()
        duration = call.duration_seconds()
        if isinstance(answer, Exception):
            self._failures += 1
            last = self.reading.last_success if self.reading else None
            self.reading = Reading(self._source.name, duration, (), _describe(answer), last)
        else:
            self._failures = 0
            self.reading = Reading(self._source.name, duration, answer, None, time.time())
        self._due = call.started + retry_seconds(self._source.every_seconds, self._failures)


def retry_seconds(every_seconds: float, failures: int) -> float:
    """The pause after so many failures in a row: the first costs nothing, then it doubles."""
    if failures <= 1:
        return every_seconds
    longest = max(every_seconds, LONGEST_BACKOFF_SECONDS)
    return min(every_seconds * 2.0 ** min(failures - 1, 16), longest)


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
