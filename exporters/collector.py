"""The bridge from a snapshot to prometheus_client: it reads what is there and asks no source."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector, CollectorRegistry

from exporters.metrics import CATALOGUE, CLOCK, Metric, Sample


class Samples(Protocol):
    """Something that was read before."""

    def samples(self) -> Iterator[Sample]: ...


class SnapshotCollector(Collector):
    def __init__(
        self, snapshot: Callable[[], Samples], catalogue: Iterable[Metric] = CATALOGUE
    ) -> None:
        self._snapshot = snapshot
        self._catalogue = tuple(catalogue)

    def describe(self) -> Iterable[Family]:
        """Without it, registering would call `collect` to learn the names."""
        return [metric.family() for metric in self._catalogue]

    def collect(self) -> Iterable[Family]:
        families: dict[Metric, CounterMetricFamily | GaugeMetricFamily] = {}
        seen: set[tuple[Metric, tuple[str, ...]]] = set()
        # The clock is compared with that of the scrape, so it is read at the scrape.
        for sample in (CLOCK.sample(time.time()), *self._snapshot().samples()):
            if (sample.metric, sample.labels) in seen:
                continue  # Prometheus would refuse the whole page
            seen.add((sample.metric, sample.labels))
            family = families.setdefault(sample.metric, sample.metric.family())
            family.add_metric(sample.labels, sample.value)
        return families.values()


def registry(
    snapshot: Callable[[], Samples], catalogue: Iterable[Metric] = CATALOGUE
) -> CollectorRegistry:
    """A registry of its own: prometheus_client's default one adds garbage collector statistics."""
    own = CollectorRegistry()
    own.register(SnapshotCollector(snapshot, catalogue))
    return own
