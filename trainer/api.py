"""The way in: `fit` for programs, `run` for `python -m trainer`."""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch

from trainer import depthwise, models, tune
from trainer.data import Data, load
from trainer.exchange.engine import Engine
from trainer.formats import Plan, PlanError, Threads, fitted_to, misfit
from trainer.loop import Training, TrainingError
from trainer.optimizers import Loss, build_loss, with_heads
from trainer.report import Reporter, explain, reporting
from trainer.threads import compute_with

PLAN = "plan.json"


def fit(
    model: torch.nn.Module | None = None,
    data: Data | None = None,
    loss: Loss | None = None,
    *,
    plan: Plan | str | os.PathLike[str] = PLAN,
) -> float:
    """Train `model` on all phones of the run; returns the test accuracy, NaN when the run was asked
    to end before the first evaluation.

    Called by every rank of a program that `fleetctl launch` started in the run folder, where
    plan.json says how. Model, data and loss default to those that the plan names. Rank 0's
    parameters are the first ones of all ranks. Failures are raised after the rank has recorded
    them.
    """
    chosen = plan if isinstance(plan, Plan) else Plan.read(plan)
    chosen.check()
    with reporting(Path.cwd(), chosen) as reporter:
        return run(chosen, Path.cwd(), reporter, model, data, loss)


def load_data(name: str) -> Data:
    """The data set of this name that `fleetctl launch` has put on the phone (`stage: all`)."""
    return load(_data_folder(name))


def _data_folder(path: str) -> Path:
    return Path.home() / "phonerack" / "data" / path


def run(
    plan: Plan,
    run_dir: Path,
    reporter: Reporter,
    model: torch.nn.Module | None = None,
    data: Data | None = None,
    loss: Loss | None = None,
) -> float:
    """Train as `plan` says; `run_dir` receives progress, checkpoints and the last word."""
    if plan.threads != "auto":
        compute_with(plan.threads)
    torch.use_deterministic_algorithms(plan.deterministic)
    torch.manual_seed(plan.seed)
    loss = build_loss(plan.loss) if loss is None else loss
    data = load(_data_folder(plan.data.path), plan, reporter.rank) if data is None else data
    model = _build_model(plan, data) if model is None else model
    tuned = _tuned(plan, reporter, model, data, loss) if plan.threads == "auto" else None
    reporter.ready()
    engine = Engine.of(plan)  # its thread is free to use the other cores
    if tuned is not None:
        tune.use(tuned.pools, tuned.cores, engine.thread_id)
    try:
        if engine.size != len(plan.phones):
            raise PlanError(
                f"phones ({len(plan.phones)} names) and the MPI world ({engine.size} ranks) "
                "must be equally large: start one rank a phone"
            )
        group = engine if plan.exchange.enabled else None
        if plan.kernels == "auto" and not plan.deterministic:  # what is measured may differ
            sample = torch.zeros(1, *_image_shape(plan, data))
            batch = plan.samples_per_rank[reporter.rank]
            reporter.note(depthwise.speed_up(model, sample, batch))
        training = Training(plan, run_dir, reporter, group, model, data, loss)
        reporter.done(training.run())
    except BaseException as error:
        reporter.failed(explain(error))
        if isinstance(error, TrainingError):
            engine.close()  # all ranks are here: each gets to say why
        else:
            engine.abandon()
        raise
    engine.close()
    return math.nan if reporter.test_accuracy is None else reporter.test_accuracy


def _tuned(
    plan: Plan, reporter: Reporter, model: torch.nn.Module, data: Data, loss: Loss
) -> Threads:
    """What this phone computes its share fastest with."""
    share = plan.samples_per_rank[reporter.rank]
    samples = max(share // plan.accumulate, 2)
    workload = tune.workload_of(plan.model, model, _image_shape(plan, data), samples)
    tuned = tune.choose(model, with_heads(loss, model), workload, tune.profile_path())
    cores = f" on cores {', '.join(map(str, tuned.cores))}" if tuned.cores else ""
    pools = f"{tuned.threads} x {tuned.blas_threads} threads (torch x OpenBLAS)"
    reporter.note(f"{reporter.phone} computes with {pools}{cores}")
    return tuned


def _build_model(plan: Plan, data: Data) -> torch.nn.Module:
    """The plan's model for this data set. Raises PlanError if the two do not fit."""
    shape = _image_shape(plan, data)
    if reason := misfit(plan.model, shape, data.classes):
        raise PlanError(f"{reason} ({plan.data.name})")
    return models.build(fitted_to(plan.model, shape, data.classes))


def _image_shape(plan: Plan, data: Data) -> tuple[int, ...]:
    """Channels, height and width of an image as the model sees it."""
    channels, *sides = data.train.images.shape[1:]
    crop = plan.data.crop_pixels
    return (channels, crop, crop) if crop else (channels, *sides)
