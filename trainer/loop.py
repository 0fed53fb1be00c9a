"""The training loop of one rank: steps, evaluation, checkpoints, resumption."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch

from trainer import checkpoint
from trainer.augment import Augmentation, Normalisation, centre
from trainer.batchnorm import FEW_SAMPLES, has_batch_norm, share_statistics
from trainer.checkpoint import Checkpoint
from trainer.data import Data, epoch_order, order_of, samples_alone
from trainer.errors import TrainerError
from trainer.exchange.engine import Engine
from trainer.formats import (
    LEAST_FOR_BATCH_NORM,
    CheckpointEvent,
    EvaluatingEvent,
    EvaluationEvent,
    IterationEvent,
    Plan,
    Progress,
    SharesEvent,
    StartEvent,
)
from trainer.heat import Shares
from trainer.measure.heat import Thermometer
from trainer.optimizers import Loss, build_optimizer, build_scheduler, scaled_rates, with_heads
from trainer.report import Reporter
from trainer.schedule import Schedule, linear_scale
from trainer.shares import batches, equal_shares, part_of, smallest_part
from trainer.step import DataParallel, StepResult

CHECKPOINTS = "checkpoints"

FINISH = "finish"
"""A file in the run folder of any phone that asks the run to end with a checkpoint, once the
iteration is over that all ranks are in."""


class TrainingError(TrainerError):
    """The training itself went wrong, on all ranks at the same iteration."""


class Training:
    """A run on one rank. `group` is the engine, or None where each phone trains alone."""

    def __init__(
        self, plan: Plan, run_dir: Path, reporter: Reporter, group: Engine | None,
        model: torch.nn.Module, data: Data, loss: Loss,
    ) -> None:  # fmt: skip
        self._plan, self._run_dir, self._reporter, self._group = plan, run_dir, reporter, group
        self._model, self._loss, self._test, self._train_set = model, loss, data.test, data.train
        self._layout = checkpoint.layout_sha256(model)
        shares, self._position = plan.samples_per_rank, reporter.rank
        if group is None:
            own = samples_alone(plan, len(data.train), reporter.rank)
            self._train_set = data.train.take(own)
            shares, self._position = (shares[reporter.rank],), 0
        own_statistics = has_batch_norm(model) and not plan.sync_batch_norm
        least = LEAST_FOR_BATCH_NORM if own_statistics else 1
        follows = plan.heat.enabled and group is not None and group.size > 1
        self._thermometer = Thermometer() if follows else None
        self._shares = Shares(
            plan, shares, own_statistics=own_statistics, thermometer=self._thermometer
        )
        self._schedule = Schedule.of(plan, len(self._train_set), shares, least)
        self._warning = _few_samples(plan, self._schedule) if own_statistics else []
        self._optimizer = build_optimizer(plan.optimizer, model.parameters())
        self._rate = plan.optimizer.args["lr"] * linear_scale(plan)
        self._set_rate()
        self._scheduler = build_scheduler(plan.scheduler, self._optimizer)
        self._executor = DataParallel(
            model,
            with_heads(loss, model),
            self._optimizer,
            group,
            plan.exchange.bucket_bytes,
            accumulate=plan.accumulate,
            sync_batch_norm=plan.sync_batch_norm,
            numbers=self._shares.numbers,
        )
        self._told = self._shares.tell(0.0)
        self._normalisation = Normalisation.of(data) if plan.data.normalise else None
        self._finish = False
        self._last_checkpoint: Path | None = None
        self._images = 0
        self._order = np.empty(0, np.int64)
        self._augmentation: Augmentation | None = None
        self._order_epoch = -1

    def _set_rate(self) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate

    def run(self) -> str:
        """Train to the end; returns the checksum of the parameters."""
        with self._thermometer or nullcontext():
            return self._run()

    def _run(self) -> str:
        reporter, schedule = self._reporter, self._schedule
        notes = [*reporter.notes, *self._begin(), *self._warning]
        note = "; ".join(notes) or None
        reporter.event(StartEvent(time.time(), reporter.iteration, schedule.iterations, note))
        while reporter.iteration < schedule.iterations and not reporter.finished_early:
            epoch, batch = divmod(reporter.iteration, schedule.per_epoch)
            self._train(epoch, batch)
            last = reporter.iteration == schedule.iterations
            ends_epoch = batch == schedule.per_epoch - 1
            loss = None
            if last or (ends_epoch and (epoch + 1) % self._plan.evaluate_every_epochs == 0):
                loss = self._evaluate(epoch)
            self._step_scheduler(ends_epoch, loss)
            every = self._plan.checkpoint.every_iterations
            reporter.finished_early = self._finish and not last
            if last or self._finish or (every and reporter.iteration % every == 0):
                self._save(epoch)
        if reporter.test_accuracy is None and not reporter.finished_early:  # resumed at the end
            self._evaluate(self._plan.epochs - 1)
        return checkpoint.parameters_sha256(self._model)

    # --- start ---

    def _begin(self) -> list[str]:
        """One state on all ranks: that of the newest checkpoint, else rank 0's first
        parameters. Returns what a person should know."""
        if self._plan.resume is not None:
            return self._resume(self._run_dir / self._plan.resume)
        if self._group is not None:
            payload = checkpoint.pack(self._model, self._optimizer, self._scheduler)
            self._share_state(self._group, payload, root=0)
        return []

    def _resume(self, place: Path) -> list[str]:
        """Not every phone holds checkpoints: whoever has the newest shares it."""
        mine, skipped = checkpoint.newest_valid(place, self._plan.model, self._layout)
        group = self._group
        if group is None:
            raise TrainingError("resume without exchange: no common state to go on from")
        offers = np.zeros(group.size)
        offers[group.rank] = mine.header.iteration + 1 if mine else 0
        group.all_reduce(offers)
        if not offers.any():
            here = "; ".join(skipped) or "none on this phone"
            raise TrainingError(f"no valid checkpoint at {place} on any phone: {here}")
        source = int(offers.argmax())
        self._share_state(group, mine.payload if mine and source == group.rank else b"", source)
        self._reporter.iteration = int(offers.max()) - 1
        notes = [f"skipped {reason}" for reason in skipped]
        return [*notes, f"resumed from iteration {self._reporter.iteration}{_source(mine)}"]

    def _share_state(self, group: Engine, payload: bytes, root: int) -> None:
        """Take over the state that `root` has packed; equal on all ranks afterwards."""
        length = np.array([len(payload)], np.int64)
        group.broadcast(length, root)
        content = np.zeros(int(length[0]), np.uint8)
        if group.rank == root:
            content[:] = np.frombuffer(payload, np.uint8)
        group.broadcast(content, root)
        checkpoint.unpack(content.tobytes(), self._model, self._optimizer, self._scheduler)
        if self._scheduler is None:
            self._set_rate()  # of this plan, whatever the checkpoint's was

    # --- one iteration ---

    def _train(self, epoch: int, batch: int) -> None:
        plan, reporter = self._plan, self._reporter
        began = time.perf_counter()
        # So that dropout does not depend on what was drawn before a resumption.
        torch.manual_seed(hash((plan.seed, reporter.iteration, reporter.rank)))
        images, labels, dealt = self._batch(epoch, batch)
        batch_size, parts = sum(dealt), self._shares.parts(dealt, self._position)
        prepared = time.perf_counter() - began
        factor = self._schedule.rate_factor(plan, reporter.iteration)
        with scaled_rates(self._optimizer, factor):
            asked = (self._run_dir / FINISH).exists()
            step = self._executor.step(
                images, labels, batch_size, finish=asked, tell=self._told, parts=parts
            )
        if step.bad or step.overflow:
            raise self._not_finite(step, epoch, batch)
        reporter.iteration += 1
        self._finish = step.finish
        self._images += len(labels)
        self._report(step, prepared, epoch, dealt)
        self._follow_heat(step)
        self._told = self._shares.tell(prepared + step.compute_seconds)

    def _follow_heat(self, step: StepResult) -> None:
        """Take over what all ranks have just agreed on without a word."""
        weight = self._weight
        if (change := self._shares.decide(step.told)) is None:
            return
        if self._group is not None:
            # One that comes back from a pause has not seen what the others learned meanwhile.
            share_statistics(self._model, weight, self._group.all_reduce)
        phones, reporter = self._plan.phones, self._reporter
        why = {phones[rank]: reason for rank, reason in change.why.items()}
        reporter.event(SharesEvent(time.time(), reporter.iteration, change.shares, why))

    def _step_scheduler(self, ends_epoch: bool, test_loss: float | None) -> None:
        spec = self._plan.scheduler
        if spec is None:
            return
        if isinstance(self._scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            if test_loss is not None:
                self._scheduler.step(test_loss)
        elif ends_epoch or spec.every == "iteration":
            self._scheduler.step()

    def _batch(self, epoch: int, batch: int) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
        """This rank's images and labels of a batch, and how many each rank has of it."""
        plan, train = self._plan, self._train_set
        if epoch != self._order_epoch:
            self._order_epoch = epoch
            self._order = self._epoch_order(epoch)
            self._augmentation = Augmentation(
                plan.data, len(train), train.images.shape[2:], plan.seed, epoch
            )
        size = sum(self._shares.now)
        samples = self._order[batch * size : (batch + 1) * size]
        dealt = self._shares.deal(len(samples))
        own = samples[part_of(dealt, self._position)]
        assert self._augmentation is not None  # noqa: S101
        images = self._normalised(self._augmentation.apply(train.images[own], own))
        return images, torch.from_numpy(train.labels[own]), dealt

    def _epoch_order(self, epoch: int) -> np.ndarray:
        """Of this rank's training set, which is the whole one unless it trains alone."""
        if self._group is None:
            return epoch_order(len(self._train_set), self._plan.seed, epoch)
        return order_of(self._plan, len(self._train_set), epoch)

    def _normalised(self, images: np.ndarray) -> torch.Tensor:
        images = self._normalisation.apply(images) if self._normalisation else images
        return torch.from_numpy(np.ascontiguousarray(images))

    def _report(self, step: StepResult, prepared: float, epoch: int, dealt: Sequence[int]) -> None:
        reporter, now, batch_size = self._reporter, time.time(), sum(dealt)
        compute_seconds = prepared + step.compute_seconds
        reporter.event(
            IterationEvent(
                time=now,
                iteration=reporter.iteration,
                epoch=epoch,
                loss=step.loss,
                images=batch_size,
                images_per_second=batch_size / (compute_seconds + step.wait_seconds),
                compute_seconds=compute_seconds,
                exchange_seconds=step.exchange_seconds,
                wait_seconds=step.wait_seconds,
            )
        )
        reporter.progress(
            Progress(
                run=self._plan.run,
                rank=reporter.rank,
                phone=reporter.phone,
                time=now,
                iteration=reporter.iteration,
                iterations=self._schedule.iterations,
                epoch=epoch,
                loss=step.own_loss,
                accuracy=reporter.test_accuracy,
                compute_seconds=compute_seconds,
                exchange_seconds=step.exchange_seconds,
                wait_seconds=step.wait_seconds,
                images=self._images,
                samples=dealt[self._position],
            )
        )

    def _not_finite(self, step: StepResult, epoch: int, batch: int) -> TrainingError:
        own = self._reporter.rank
        bad = {rank if self._group else own: what for rank, what in step.bad.items()}
        phones = self._plan.phones
        whose = "; ".join(f"{what} of rank {rank} ({phones[rank]})" for rank, what in bad.items())
        if step.overflow:
            whose = "the sum of the gradients, though each rank's are finite,"
        return TrainingError(
            f"{whose} is not finite in iteration {self._reporter.iteration + 1} (epoch {epoch}, "
            f"batch {batch} of {self._schedule.per_epoch}); last good checkpoint: "
            f"{self._last_checkpoint or 'none'}. Lower the learning rate or lengthen the warm-up"
        )

    # --- evaluation and checkpoints ---

    def _share_statistics(self) -> None:
        """BatchNorm's running statistics differ by phone, unless they are synchronised; what is
        evaluated and kept has the mean of all, weighted by their samples."""
        if self._group is not None:
            share_statistics(self._model, self._weight, self._group.all_reduce)

    @property
    def _weight(self) -> float:
        """This rank's part of a batch."""
        return self._shares.now[self._position] / sum(self._shares.now)

    @torch.no_grad()
    def _evaluate(self, epoch: int) -> float:
        """Accuracy over the whole test set, of which each rank takes a part; the mean loss."""
        test, group, reporter = self._test, self._group, self._reporter
        reporter.event(EvaluatingEvent(time.time(), reporter.iteration, len(test)))
        self._share_statistics()
        rank, ranks = (group.rank, group.size) if group else (0, 1)
        part = part_of(equal_shares(len(test), ranks), rank)
        sums = np.zeros(3)  # correct, loss, samples
        self._model.eval()
        for some in batches(part, self._shares.most_at_once(self._position)):
            answer = torch.from_numpy(test.labels[some])
            images = centre(test.images[some], self._plan.data.crop_pixels)
            output = self._model(self._normalised(images))
            correct = int((output.argmax(dim=1) == answer).sum())
            sums += (correct, self._loss(output, answer).item() * len(answer), len(answer))
        self._model.train()
        if group is not None:
            group.all_reduce(sums)
        accuracy, test_loss = float(sums[0] / sums[2]), float(sums[1] / sums[2])
        reporter.test_accuracy = accuracy
        told = test_loss if math.isfinite(test_loss) else None
        reporter.event(EvaluationEvent(time.time(), reporter.iteration, epoch, told, accuracy))
        return test_loss

    def _save(self, epoch: int) -> None:
        plan, reporter = self._plan, self._reporter
        self._share_statistics()
        if not checkpoint.is_finite(self._model):  # alike on all ranks
            raise TrainingError(
                f"parameters are not finite after iteration {reporter.iteration}; last good "
                f"checkpoint: {self._last_checkpoint or 'none'}. Lower the learning rate or "
                "lengthen the warm-up"
            )
        if reporter.rank >= plan.checkpoint.ranks:
            return
        path = checkpoint.save(
            self._run_dir / CHECKPOINTS,
            checkpoint.pack(self._model, self._optimizer, self._scheduler),
            run=plan.run,
            phone=reporter.phone,
            model=plan.model,
            layout=self._layout,
            iteration=reporter.iteration,
            epoch=epoch,
            keep=plan.checkpoint.keep,
        )
        self._last_checkpoint = path.relative_to(self._run_dir)
        reporter.event(CheckpointEvent(time.time(), reporter.iteration, str(self._last_checkpoint)))


def _few_samples(plan: Plan, schedule: Schedule) -> list[str]:
    """What a person should know of BatchNorm whose statistics are each phone's own."""
    warnings = []
    fewest = smallest_part(plan.samples_per_rank, plan.accumulate)
    if fewest < FEW_SAMPLES:
        warnings.append(
            f"BatchNorm computes statistics of only {fewest} samples at a time: the model may "
            f"learn badly; give each phone at least {FEW_SAMPLES}, or set sync_batch_norm"
        )
    if schedule.left_out:
        warnings.append(
            f"{schedule.left_out} samples of each epoch, other ones each time, are left out: too "
            "few for BatchNorm on every phone; a global_batch that divides the data set, or "
            "sync_batch_norm, takes them in"
        )
    return warnings


def _source(mine: Checkpoint | None) -> str:
    return f" (here: {mine.path.name})" if mine else ""
