"""What heat does: a phone's iterations while it is cool, and while it is hot. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from trainer.formats import StepTime, Trained

_TENTH = 10


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Medians of compute in the coolest and in the hottest tenth of a phone's iterations. Compute,
    since an iteration also waits for the slowest of the others."""

    phone: str
    iterations: int
    cool_celsius: float
    cool_seconds: float
    hot_celsius: float
    hot_seconds: float

    @property
    def slower_by(self) -> float:
        """0.15 is 15 % more time hot than cool."""
        return self.hot_seconds / self.cool_seconds - 1


def slowdowns(ranks: Iterable[Trained]) -> list[Slowdown]:
    """One a phone whose temperature could be read, in rank order."""
    return [found for rank in ranks if (found := _slowdown(rank))]


def _slowdown(rank: Trained) -> Slowdown | None:
    steps = [step for step in rank.steps if step.celsius is not None]
    if len(steps) < 2:
        return None
    ordered = sorted(steps, key=lambda step: step.celsius or 0.0)
    count = max(1, len(ordered) // _TENTH)
    cool, hot = _Part.of(ordered[:count]), _Part.of(ordered[-count:])
    return Slowdown(
        rank.phone, len(rank.steps), cool.celsius, cool.seconds, hot.celsius, hot.seconds
    )


@dataclass(frozen=True, slots=True)
class _Part:
    celsius: float
    seconds: float

    @classmethod
    def of(cls, steps: list[StepTime]) -> _Part:
        return cls(
            statistics.median(step.celsius for step in steps if step.celsius is not None),
            statistics.median(step.compute_seconds for step in steps),
        )
