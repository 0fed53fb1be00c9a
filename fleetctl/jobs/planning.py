"""From a job and its phones to the plan that the trainer executes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from fleetctl.jobs.jobfile import JobError, Train
from trainer.formats import (
    CheckpointSpec,
    DataManifest,
    DataSpec,
    Exchange,
    LossSpec,
    ModelSpec,
    OptimizerSpec,
    Plan,
    PlanError,
    SchedulerSpec,
    fitted_to,
    misfit,
)


def equal_shares(samples: int, ranks: int) -> tuple[int, ...]:
    """`samples` split over ranks as evenly as it goes; the first ranks take the rest."""
    share, rest = divmod(samples, ranks)
    return tuple(share + (rank < rest) for rank in range(ranks))


def build_plan(
    train: Train, run: str, phones: Sequence[str], resume: str | None = None,
    *, switches: Sequence[str] = (), data: DataManifest | None = None,
) -> Plan:  # fmt: skip
    """The plan of `run` on `phones` (ring order), its model fitted to the data set, if that is
    known. Raises JobError naming what does not fit.

    `switches` names each phone's switch, "" where the rack file does not say it.
    """
    if train.global_batch < len(phones):
        raise JobError(
            f"global_batch {train.global_batch} gives some of {len(phones)} phones no sample; "
            f"raise it, or take at most {train.global_batch} phones"
        )
    schedule, scheduler = _schedule(train)
    plan = Plan(
        run=run,
        phones=tuple(phones),
        samples_per_rank=equal_shares(train.global_batch, len(phones)),
        model=_model(train, data),
        data=DataSpec(
            train.data,
            train.data,
            shift_pixels=train.shift_pixels,
            stage=train.stage,
            crop_pixels=train.crop_pixels,
            flip=train.flip,
            normalise=train.normalise,
        ),
        epochs=train.epochs,
        optimizer=OptimizerSpec(train.optimizer.name, train.optimizer.args),
        warmup_iterations=train.warmup_iterations,
        schedule=schedule,
        scheduler=scheduler,
        base_batch=train.base_batch,
        loss=LossSpec(train.loss.name, train.loss.args),
        accumulate=train.accumulate,
        sync_batch_norm=train.sync_batch_norm,
        deterministic=train.deterministic,
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


def _schedule(train: Train) -> tuple[Literal["constant", "cosine"], SchedulerSpec | None]:
    """Ours by name, or one of torch's."""
    if isinstance(train.schedule, str):
        return train.schedule, None
    chosen = train.schedule
    return "constant", SchedulerSpec(chosen.name, chosen.args, chosen.every)


def _model(train: Train, data: DataManifest | None) -> ModelSpec:
    """The model with what follows from the data set. Raises JobError if the two do not fit."""
    model = ModelSpec(train.model.name, dict(train.model.args))
    if data is None:
        return model
    channels, *sides = data.shape
    if train.crop_pixels > min(sides):
        raise JobError(
            f"crop_pixels {train.crop_pixels} is more than data set {data.name} has: its images "
            f"are {'x'.join(map(str, data.shape))}"
        )
    crop = train.crop_pixels
    shape = (channels, crop, crop) if crop else data.shape
    if reason := misfit(model, shape, data.classes):
        raise JobError(
            f"{reason}; take another model or another data set than {data.name}, or make the data "
            "set anew with images of that size"
        )
    return fitted_to(model, shape, data.classes)
