"""Shares that follow heat, on one rank: what it tells the others, and what all then decide."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainer.errors import TrainerError
from trainer.formats import LEAST_FOR_BATCH_NORM, Plan
from trainer.measure.heat import Thermometer
from trainer.members import NUMBERS, Change, Members, Reading
from trainer.shares import bounded_shares


class SharesDiffer(TrainerError):
    """Ranks have computed by different shares, so that their sum means nothing."""


class Shares:
    """The samples of each rank as they are now: the plan's, or what heat has made of them.

    Every rank has one of these, and all must `decide` after the same iterations.
    """

    def __init__(
        self, plan: Plan, shares: Sequence[int], *, own_statistics: bool,
        thermometer: Thermometer | None = None,
    ) -> None:  # fmt: skip
        """`own_statistics`: the model has BatchNorm, with the statistics of each phone's own.
        `thermometer`: this phone's, where shares follow heat."""
        self._plan, self._own_statistics = plan, own_statistics
        self._thermometer = thermometer
        self.now = self._planned = tuple(shares)
        self.least = LEAST_FOR_BATCH_NORM * plan.accumulate if own_statistics else 1
        """The fewest samples of a rank that has some."""
        self._members = Members(self.now, self.least, plan.heat.pause_celsius)

    @property
    def numbers(self) -> int:
        """How many each rank tells the others with the exchange of an iteration."""
        return NUMBERS if self._thermometer is not None else 0

    def deal(self, samples: int) -> list[int]:
        """A batch of so many over the ranks; the last one of an epoch may be a small one."""
        return bounded_shares(samples, self.now, self.least)

    def parts(self, dealt: Sequence[int], rank: int) -> int:
        """In how many parts a rank computes its share, so that its memory is enough for each."""
        heat, count = self._plan.heat, self._plan.accumulate
        if not (heat.enabled and heat.most_at_once):
            return count
        needed = [math.ceil(n / most) for n, most in zip(dealt, heat.most_at_once, strict=True)]
        if self._plan.sync_batch_norm:  # its layers wait for all ranks in each part
            return max(count, *needed)
        if self._own_statistics:
            return max(count, min(needed[rank], dealt[rank] // LEAST_FOR_BATCH_NORM))
        return max(count, needed[rank])

    def most_at_once(self, rank: int) -> int:
        """So many samples at a time a rank has memory for: what it was rehearsed with, or what its
        share of the plan is computed in. Evaluating takes less for each than training."""
        heat, planned = self._plan.heat, math.ceil(self._planned[rank] / self._plan.accumulate)
        known = heat.most_at_once[rank] if heat.enabled and heat.most_at_once else 0
        return max(planned, known, 1)

    def tell(self, compute_seconds: float) -> tuple[float, ...]:
        """What this rank has to say after an iteration whose compute took so long."""
        if self._thermometer is None:
            return ()
        heat, slowed = self._thermometer.heat, self._thermometer.slowed
        return Reading(compute_seconds, heat.battery_celsius, slowed).numbers(self._members.mark)

    def decide(self, told: Sequence[Sequence[float]]) -> Change | None:
        """What changes with the next iteration, by what all ranks have told in this one. Raises
        SharesDiffer if they did not compute by the same shares."""
        if self._thermometer is None:
            return None
        marks = [numbers[-1] for numbers in told]
        if len(set(marks)) > 1:
            raise SharesDiffer(
                f"the phones computed by different shares ({', '.join(map(str, marks))}); this is "
                "a defect: report it, and launch with `heat: false`"
            )
        change = self._members.take([Reading.of(numbers) for numbers in told])
        if change is not None:
            self.now = change.shares
        return change
