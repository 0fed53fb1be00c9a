"""What steps and exchanges cost, by what was measured of a rack. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


def ring_terms(phones: int, size_bytes: float, messages: int = 1) -> tuple[float, float]:
    """What α and 1/B are multiplied with for ring all-reduces of `size_bytes` in all, cut into so
    many: 2(p-1) steps each, and 2(p-1)/p of the bytes over every link (Patarasuk and Yuan 2009).
    """
    return messages * 2 * (phones - 1), 2 * (phones - 1) / phones * size_bytes


@dataclass(frozen=True, slots=True)
class StepCost:
    """One training step of one phone by itself, with so many samples."""

    batch: int
    forward_seconds: float
    backward_seconds: float
    optimizer_seconds: float

    @property
    def seconds(self) -> float:
        return self.forward_seconds + self.backward_seconds + self.optimizer_seconds


def between(measured: Iterable[StepCost], batch: float) -> StepCost:
    """The step of `batch` samples, on straight lines through those that were measured (at least
    one). Beyond them the last line goes on; but fewer samples take at least their part of the
    smallest measured, and more take no less than the largest. One alone is taken in proportion.

    The optimiser's time does not depend on the batch; it is that of the nearest.
    """
    points = sorted(measured, key=lambda step: step.batch)
    nearest = min(points, key=lambda step: abs(step.batch - batch))
    low, high = _around(points, batch)

    def on_line(part: str) -> float:
        start, end = getattr(low, part), getattr(high, part)
        proportional = getattr(nearest, part) * batch / nearest.batch
        if low is high:
            return float(proportional)
        value = start + (end - start) * (batch - low.batch) / (high.batch - low.batch)
        if batch < low.batch:
            return float(max(value, proportional))
        return float(value if batch <= high.batch else max(value, end))

    return StepCost(
        round(batch), on_line("forward_seconds"), on_line("backward_seconds"),
        nearest.optimizer_seconds,
    )  # fmt: skip


def _around(points: Sequence[StepCost], batch: float) -> tuple[StepCost, StepCost]:
    """The two measurements whose line `batch` lies on, or nearest to."""
    if len(points) == 1:
        return points[0], points[0]
    pairs = list(pairwise(points))
    return next((pair for pair in pairs if batch <= pair[1].batch), pairs[-1])
