"""From a job and its phones to the plan that the trainer executes. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from fleetctl.jobs.jobfile import JobError, Train
from fleetctl.rack.outlets import GuardLimits
from trainer.formats import (
    KNOWN,
    CheckpointSpec,
    DataManifest,
    DataSpec,
    Exchange,
    HeatSpec,
    LossSpec,
    ModelSpec,
    OptimizerSpec,
    Plan,
    PlanError,
    SchedulerSpec,
    fitted_to,
    misfit,
)

PAUSE_BELOW_DRAIN_CELSIUS = 2.0
_DRAIN_CELSIUS = GuardLimits().drain_celsius

SMALL_PARAMETERS = 1_000_000
SMALL_SIDE_PIXELS = 32
SMALL_PIXELS = 60_000
"""A model of fewer parameters, on images no larger, with fewer pixels at a time needs no rehearsal:
preflight's least free memory is enough for it."""

_FOLLOWS = {"num_classes", "in_channels", "pixels"}
"""Arguments that follow from the data set."""


def is_small(model: ModelSpec, shape: Sequence[int], samples: int) -> bool:
    """Whether every phone has memory enough for the model with so many images of `shape` at a
    time, as far as is known of it here. One that was given other sizes may be of any size."""
    known = KNOWN.get(model.name)
    return (
        known is not None
        and known.parameters < SMALL_PARAMETERS
        and model.args.keys() <= _FOLLOWS
        and max(shape[1:]) <= SMALL_SIDE_PIXELS
        and samples * math.prod(shape[1:]) <= SMALL_PIXELS
    )


def seen_shape(shape: tuple[int, ...], crop_pixels: int) -> tuple[int, ...]:
    """Images of a data set as the model sees them."""
    return (shape[0], crop_pixels, crop_pixels) if crop_pixels else shape


def equal_shares(samples: int, ranks: int) -> tuple[int, ...]:
    """`samples` split over ranks as evenly as it goes; the first ranks take the rest."""
    share, rest = divmod(samples, ranks)
    return tuple(share + (rank < rest) for rank in range(ranks))


def build_plan(
    train: Train, run: str, phones: Sequence[str], resume: str | None = None,
    *, switches: Sequence[str] = (), data: DataManifest | None = None,
    drain_celsius: float = _DRAIN_CELSIUS,
) -> Plan:  # fmt: skip
    """The plan of `run` on `phones` (ring order), its model fitted to the data set, if that is
    known. Raises JobError naming what does not fit.

    `switches` names each phone's switch, "" where the rack file does not say it. `drain_celsius`:
    at which guard ends a phone's job; a little below it the phone pauses.
    """
    if train.global_batch < len(phones):
        raise JobError(
            f"global_batch {train.global_batch} gives some of {len(phones)} phones no sample; "
            f"raise it, or take at most {train.global_batch} phones"
        )
    schedule, scheduler = _schedule(train)
    shares = equal_shares(train.global_batch, len(phones))
    model = _model(train, data)
    small = data is not None and is_small(
        model,
        seen_shape(data.shape, train.crop_pixels),
        math.ceil(max(shares) / train.accumulate),
    )
    plan = Plan(
        run=run,
        phones=tuple(phones),
        samples_per_rank=shares,
        model=model,
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
        heat=_heat(train, shares, small, drain_celsius - PAUSE_BELOW_DRAIN_CELSIUS),
        evaluate_every_epochs=train.evaluate_every_epochs,
        resume=resume,
    )
    try:
        plan.check()
    except PlanError as error:
        raise JobError(str(error)) from error
    return plan


def _heat(train: Train, shares: Sequence[int], small: bool, pause_celsius: float) -> HeatSpec:
    """Shares follow heat unless the job says otherwise, or what it asks for does not go with it.

    A phone that takes over samples computes no more at a time than its share was, in as many parts
    as that takes, as long as nobody knows that its memory is enough for more.
    """
    possible = train.stage == "all" and train.exchange.enabled and not train.deterministic
    if not (possible if train.heat is None else train.heat):
        return HeatSpec(pause_celsius=pause_celsius)
    most = () if small else [math.ceil(n / train.accumulate) for n in shares]
    return HeatSpec(True, pause_celsius, tuple(most))


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
    if train.crop_pixels > min(data.shape[1:]):
        raise JobError(
            f"crop_pixels {train.crop_pixels} is more than data set {data.name} has: its images "
            f"are {'x'.join(map(str, data.shape))}"
        )
    shape = seen_shape(data.shape, train.crop_pixels)
    if reason := misfit(model, shape, data.classes):
        raise JobError(
            f"{reason}; take another model or another data set than {data.name}, or make the data "
            "set anew with images of that size"
        )
    return fitted_to(model, shape, data.classes)
