"""The bridge from a snapshot to prometheus_client: it reads what is there and asks no source."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector, CollectorRegistry

from exporters.metrics import CATALOGUE, Metric
from exporters.sampler import Snapshot


class SnapshotCollector(Collector):
    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def describe(self) -> Iterable[Family]:
        """Without it, registering would call `collect` to learn the names."""
        return [metric.family() for metric in CATALOGUE]

    def collect(self) -> Iterable[Family]:
        families: dict[Metric, CounterMetricFamily | GaugeMetricFamily] = {}
        for sample in self._snapshot().samples():
            family = families.setdefault(sample.metric, sample.metric.family())
            family.add_metric(sample.labels, sample.value)
        return families.values()


def registry(snapshot: Callable[[], Snapshot]) -> CollectorRegistry:
    """A registry of its own: prometheus_client's default one adds garbage collector statistics."""
    own = CollectorRegistry()
    own.register(SnapshotCollector(snapshot))
    return own
