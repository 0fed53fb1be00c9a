"""What scaling means: compute, exchange and wait by number of phones, speed-up and efficiency."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetctl.bench.document import ScalingLaunch
from fleetctl.bench.fit import speed_up, throughput_efficiency
from trainer.formats import StepTime, Trained


@dataclass(frozen=True, slots=True)
class Point:
    """Medians over the iterations of one launch. Compute and exchange are those of the rank that
    needed longest, since all wait for it; wait is the mean over ranks; the iteration is that of
    the median rank, compute and wait together."""

    model: str
    mode: Literal["global", "phone"]
    phones: int
    global_batch: int
    compute_seconds: float
    exchange_seconds: float
    wait_seconds: float
    iteration_seconds: float

    @property
    def images_per_second(self) -> float:
        return self.global_batch / self.iteration_seconds


@dataclass(frozen=True, slots=True)
class Gain:
    """Against the fewest phones of the same model and mode."""

    speed_up: float
    efficiency: float


def points(launches: Iterable[ScalingLaunch]) -> list[Point]:
    """One a launch, in their order."""
    return [_point(launch) for launch in launches if all(rank.steps for rank in launch.ranks)]


def _point(launch: ScalingLaunch) -> Point:
    ranks = [_Medians.of(rank) for rank in launch.ranks]
    return Point(
        model=launch.model.name,
        mode=launch.mode,
        phones=len(launch.ranks),
        global_batch=sum(launch.samples_per_rank),
        compute_seconds=max(rank.compute for rank in ranks),
        exchange_seconds=max(rank.exchange for rank in ranks),
        wait_seconds=statistics.fmean(rank.wait for rank in ranks),
        iteration_seconds=statistics.median(rank.iteration for rank in ranks),
    )


@dataclass(frozen=True, slots=True)
class _Medians:
    compute: float
    exchange: float
    wait: float
    iteration: float

    @classmethod
    def of(cls, rank: Trained) -> _Medians:
        return cls(
            statistics.median(step.compute_seconds for step in rank.steps),
            statistics.median(step.exchange_seconds for step in rank.steps),
            statistics.median(step.wait_seconds for step in rank.steps),
            statistics.median(iteration_seconds(step) for step in rank.steps),
        )


def iteration_seconds(step: StepTime) -> float:
    return step.compute_seconds + step.wait_seconds


def relative(point: Point, all_points: Sequence[Point]) -> Gain:
    """Of `point` against the fewest phones of its model and mode among `all_points`."""
    same = [each for each in all_points if (each.model, each.mode) == (point.model, point.mode)]
    base = min(same, key=lambda each: each.phones)
    rate, base_rate = point.images_per_second, base.images_per_second
    return Gain(
        speed_up(rate, base_rate, base.phones),
        throughput_efficiency(point.phones, rate, base.phones, base_rate),
    )
