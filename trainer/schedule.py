"""Which iteration is where in a run, and its learning rate. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.formats import Plan, PlanError, steps_of_one_cycle, too_few_for_batch_norm
from trainer.shares import largest_remainder, smallest_part


@dataclass(frozen=True, slots=True)
class Schedule:
    """The iterations of a run: `per_epoch` in each epoch, the last of which may be partial."""

    per_epoch: int
    iterations: int
    left_out: int = 0
    """Samples of each epoch, other ones each time, that would have been a batch too small."""

    @classmethod
    def of(
        cls, plan: Plan, train_samples: int, shares: Sequence[int], least_samples: int = 1
    ) -> Schedule:
        """`shares` are what each rank has of a batch. A last batch of which a rank would see
        fewer than `least_samples` at a time is left out.

        Raises PlanError if every batch is too small, or the warm-up is longer than the run, or a
        scheduler shorter.
        """
        per_epoch, rest = divmod(train_samples, sum(shares))
        if smallest_part(shares, plan.accumulate) < least_samples:
            raise PlanError(too_few_for_batch_norm(shares, plan.accumulate))
        last = largest_remainder(rest, shares)
        if rest and smallest_part(last, plan.accumulate) >= least_samples:
            per_epoch, rest = per_epoch + 1, 0
        iterations = per_epoch * plan.epochs
        if plan.warmup_iterations > iterations or not iterations:
            raise PlanError(
                f"warmup_iterations ({plan.warmup_iterations}) and epochs ({plan.epochs}): "
                f"the whole run has only {iterations} iterations"
            )
        _check_one_cycle(plan, iterations)
        return cls(per_epoch, iterations, rest)

    def rate_factor(self, plan: Plan, iteration: int) -> float:
        """What the plan's learning rate is multiplied by in this iteration (counted from 0),
        beside `linear_scale` and what a scheduler of torch does."""
        warmup = plan.warmup_iterations
        if iteration < warmup:
            # With a base batch the warm-up begins at that one's rate (Goyal et al. 2017, §2.2).
            start = min(1.0, 1 / linear_scale(plan)) if plan.base_batch else 0.0
            return start + (1 - start) * (iteration + 1) / warmup
        if plan.schedule == "constant":
            return 1.0
        done = (iteration - warmup) / max(1, self.iterations - warmup)
        return (1 + math.cos(math.pi * done)) / 2


def _check_one_cycle(plan: Plan, iterations: int) -> None:
    """Raise PlanError for a scheduler that would refuse a step in the midst of the run."""
    most = steps_of_one_cycle(plan.scheduler)
    if plan.scheduler is None or most is None:
        return
    steps = iterations if plan.scheduler.every == "iteration" else plan.epochs
    if steps > most:
        raise PlanError(
            f"scheduler {plan.scheduler.name} ends after {most} steps, but the run makes {steps}, "
            f"one every {plan.scheduler.every}: set its total_steps to {steps}"
        )


def linear_scale(plan: Plan) -> float:
    """The rule of Goyal et al. (2017, arXiv:1706.02677, §2.1): k times the batch, k times the
    learning rate."""
    return plan.global_batch / plan.base_batch if plan.base_batch else 1.0
