"""From a job and its phones to the plan that the trainer executes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fleetctl.jobs.jobfile import JobError, Train
from trainer.formats import (
    CheckpointSpec,
    DataSpec,
    Exchange,
    ModelSpec,
    OptimizerSpec,
    Plan,
    PlanError,
)


def equal_shares(samples: int, ranks: int) -> tuple[int, ...]:
    """`samples` split over ranks as evenly as it goes; the first ranks take the rest."""
    share, rest = divmod(samples, ranks)
    return tuple(share + (rank < rest) for rank in range(ranks))


def build_plan(
    train: Train, run: str, phones: Sequence[str], resume: str | None = None,
    *, switches: Sequence[str] = (),
) -> Plan:  # fmt: skip
    """The plan of `run` on `phones` (ring order). Raises JobError naming what does not fit.

    `switches` names each phone's switch, "" where the rack file does not say it.
    """
    if train.global_batch < len(phones):
        raise JobError(
            f"global_batch {train.global_batch} gives some of {len(phones)} phones no sample; "
            f"raise it, or take at most {train.global_batch} phones"
        )
    optimizer = train.optimizer.model_dump(exclude={"name"})
    plan = Plan(
        run=run,
        phones=tuple(phones),
        samples_per_rank=equal_shares(train.global_batch, len(phones)),
        model=ModelSpec(train.model.name, dict(train.model.args)),
        data=DataSpec(train.data, train.data, train.shift_pixels, train.stage),
        epochs=train.epochs,
        optimizer=OptimizerSpec(train.optimizer.name, optimizer),
        warmup_iterations=train.warmup_iterations,
        schedule=train.schedule,
        seed=train.seed,
        threads=train.threads,
        kernels=train.kernels,
        exchange=Exchange(**train.exchange.model_dump()),
        switches=tuple(switches) if any(switches) else (),
        checkpoint=CheckpointSpec(**train.checkpoint.model_dump()),
        evaluate_every_epochs=train.evaluate_every_epochs,
        resume=resume,
    )
    try:
        plan.check()
    except PlanError as error:
        raise JobError(str(error)) from error
    return plan
