"""One training step. Data-parallel: every phone has the whole model and its share of the batch."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Literal

import numpy as np
import torch

from trainer.batchnorm import SyncBatchNorm, synchronised
from trainer.errors import TrainerError
from trainer.exchange.engine import Bucket, Engine
from trainer.optimizers import Loss
from trainer.shares import equal_shares

FIRST_BUCKET_BYTES = 1 << 20
"""The link stands idle until the first bucket is full, so that is no larger than this."""

_BAD_LOSS, _BAD_GRADIENT, _FINISH = 1, 2, 4
_BAD = _BAD_LOSS | _BAD_GRADIENT


class LabelError(TrainerError):
    """A label that the model has no score for."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step gave. Without exchange, `loss` is this phone's own."""

    loss: float
    """Mean over the global batch."""
    own_loss: float | None
    """Mean over this rank's samples; None when it has none."""
    bad: Mapping[int, str]
    """Rank -> what is not finite there: its loss or its gradient."""
    overflow: bool
    """Whether a sum of gradients is not finite though those of each rank are."""
    finish: bool
    """Whether a rank was asked to finish the run; all ranks agree."""
    compute_seconds: float
    exchange_seconds: float
    """Work of the communication thread, partly behind the compute."""
    wait_seconds: float
    """The part of it that was not hidden."""
    told: tuple[tuple[float, ...], ...] = ()
    """What each rank has told with the exchange."""


class DataParallel:
    """Gradients are views of one flat buffer; a bucket is posted when its last gradient is
    there, so that its exchange overlaps the rest of the backward pass. The optimiser uses each
    sum as it comes, while the next is under way.

    The buffer holds the gradients in reverse order of the parameters (the order in which they
    become ready), then the loss, one flag a rank, and the numbers that each rank tells the others,
    which thus cost no message of their own.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        engine: Engine | None,
        bucket_bytes: Literal["all", "each"] | int,
        *,
        accumulate: int = 1,
        sync_batch_norm: bool = False,
        numbers: int = 0,
    ) -> None:
        """`engine` is None where each phone trains alone. `accumulate`: parts of a step.
        `numbers`: how many each rank tells the others."""
        self._model, self._loss, self._optimizer, self._engine = model, loss, optimizer, engine
        self._rank, self._size = (engine.rank, engine.size) if engine else (0, 1)
        parameters = [p for p in reversed(list(model.parameters())) if p.requires_grad]
        _check_types(model)
        lengths = [p.numel() for p in parameters]
        length = sum(lengths)
        self._numbers = numbers
        self._buffer = np.zeros(length + 1 + self._size * (1 + numbers), np.float32)
        self._flat, self._status = self._buffer[:length], self._buffer[length:]
        # A lossy codec is kept from the loss and the flags, which then go by themselves.
        end = length if engine and engine.lossy else len(self._buffer)
        bucket_of, self._slices = _buckets(lengths, bucket_bytes, end)
        self._sizes = [bucket_of.count(i) for i in range(len(self._slices))]
        self._gradients: list[list[tuple[torch.nn.Parameter, torch.Tensor]]] = [
            [] for _ in self._slices
        ]
        parts = torch.from_numpy(self._flat).split(lengths)
        for parameter, part, bucket in zip(parameters, parts, bucket_of, strict=True):
            parameter.grad = part.view_as(parameter)
            self._gradients[bucket].append((parameter, parameter.grad))
            parameter.register_post_accumulate_grad_hook(partial(self._ready, bucket))
        self._cleared = True
        self._missing: list[int] = []
        self._posted: list[Bucket] = []
        self._complete = 0  # buckets whose gradients are all there
        self._posting = False
        self._accumulate = accumulate
        self._statistics: list[Bucket] = []
        self._statistics_wait_seconds = 0.0
        self._sync: list[SyncBatchNorm] = []
        if sync_batch_norm and engine is not None:
            self._sync = synchronised(model, self._sum_statistics)

    def step(
        self,
        images: torch.Tensor,
        labels: torch.Tensor,
        global_batch: int,
        *,
        finish: bool = False,
        tell: Sequence[float] = (),
        parts: int | None = None,
    ) -> StepResult:
        """Train on this rank's samples (perhaps none) out of `global_batch` over all ranks.

        `finish`: this rank was asked to end the run, which all ranks learn, as they do what it has
        to `tell`. `parts`: of this step, where it has others than all.
        """
        began = time.perf_counter()
        if not self._cleared:  # the step before was broken off
            self._flat.fill(0)
        self._cleared = False
        self._status.fill(0)
        self._status[1 + self._rank] = _FINISH if finish else 0
        told = self._status[1 + self._size :].reshape(self._size, self._numbers)
        told[self._rank] = tell
        self._missing, self._posted, self._posting = list(self._sizes), [], False
        self._complete = 0
        self._statistics, self._statistics_wait_seconds = [], 0.0
        own_loss = self._all_parts(images, labels, global_batch, parts or self._accumulate)
        self._missing, self._posting = [0] * len(self._missing), True
        self._post_ready()  # a parameter may be without gradient
        waited_seconds, finite = self._update()
        self._cleared = True
        flags = self._status[1 : 1 + self._size].astype(np.int64)
        bad = {
            int(rank): "loss" if flags[rank] & _BAD_LOSS else "gradient"
            for rank in np.flatnonzero(flags & _BAD)
        }
        ended = time.perf_counter()
        inner = self._statistics_wait_seconds
        return StepResult(
            loss=float(self._status[0]),
            own_loss=own_loss,
            bad=bad,
            overflow=not (finite or bad),
            finish=bool((flags & _FINISH).any()),
            compute_seconds=ended - began - inner - waited_seconds,
            exchange_seconds=sum(bucket.seconds for bucket in self._posted + self._statistics),
            wait_seconds=waited_seconds + inner,
            told=tuple(map(tuple, told.tolist())) if self._numbers else (),
        )

    def _all_parts(
        self, images: torch.Tensor, labels: torch.Tensor, global_batch: int, count: int
    ) -> float | None:
        """Forward and backward over `count` parts of this rank's samples; its mean loss."""
        sizes = equal_shares(len(labels), count)
        # With statistics in between, all ranks must send in one order: in the same part.
        last = len(sizes) - 1 if self._sync else max(sum(map(bool, sizes)) - 1, 0)
        own_loss = 0.0
        parts = zip(images.split(sizes), labels.split(sizes), strict=True)
        for part, (some, answers) in enumerate(parts):
            self._posting = part == last
            if len(answers):
                own_loss += self._backward(some, answers, len(answers) / global_batch) * len(
                    answers
                )
            elif self._sync:
                # Zero weight, for the sake of the messages that the layers exchange.
                self._backward(some.new_zeros(1, *some.shape[1:]), answers.new_zeros(1), 0.0)
        return own_loss / len(labels) if len(labels) else None

    def _backward(self, images: torch.Tensor, labels: torch.Tensor, weight: float) -> float:
        """Add the gradients of the mean loss times `weight`; the mean over the global batch is
        the sum over ranks of n_i / n times rank i's mean. Returns the mean loss."""
        for layer in self._sync:
            layer.counts = weight > 0
        output = self._model(images)
        try:
            loss = self._loss(output, labels)
        except IndexError as error:
            raise LabelError(
                f"label {int(labels.max())} in the data set: the model has no score for it "
                f"({error}); give it as many outputs as the data set has classes"
            ) from None
        value = loss.item()
        if weight:
            self._status[0] += value * weight
            if not math.isfinite(value):
                self._flag(_BAD_LOSS)
        (loss * weight).backward()
        return value

    def _sum_statistics(self, data: np.ndarray) -> np.ndarray:
        """Sum what a layer has to say over all ranks, in order with the gradients."""
        assert self._engine is not None  # noqa: S101
        began = time.perf_counter()
        bucket = self._engine.post(data, exact=True)
        self._engine.wait(bucket)
        self._statistics.append(bucket)
        self._statistics_wait_seconds += time.perf_counter() - began
        return data

    def _ready(self, bucket: int, _: torch.Tensor) -> None:
        if self._posting:
            self._missing[bucket] -= 1
            self._post_ready()

    def _post_ready(self) -> None:
        """Post what is complete, in the order of the buckets: it must be equal on all ranks."""
        engine = self._engine
        while self._complete < len(self._slices) and self._missing[self._complete] == 0:
            part = self._buffer[self._slices[self._complete]]
            # Before it is summed, since afterwards nobody knows whose it was. One number tells:
            # what is not finite stays so in a sum.
            if not np.isfinite(part.sum()) and not int(self._status[1 + self._rank]) & _BAD:
                self._flag(_BAD_GRADIENT)
            self._complete += 1
            if engine is not None:
                self._posted.append(engine.post(part))
        if engine is not None and engine.lossy and len(self._posted) == len(self._slices):
            self._posted.append(engine.post(self._status, exact=True))

    def _flag(self, flag: int) -> None:
        """Of this rank, before the flags are summed."""
        own = 1 + self._rank
        self._status[own] = int(self._status[own]) | flag

    def _update(self) -> tuple[float, bool]:
        """Let the optimiser use the gradients, and clear them; how long there was nothing else to
        do than to wait for them, and whether all are finite."""
        if self._engine is not None:
            return self._update_as_they_come(self._engine)
        finite = not int(self._status[1]) & _BAD
        if finite:
            self._optimizer.step()
        self._flat.fill(0)
        return 0.0, finite

    def _update_as_they_come(self, engine: Engine) -> tuple[float, bool]:
        """Where a sum is not finite the run ends, so it does no harm if others were used before."""
        for parameter, _ in chain.from_iterable(self._gradients):
            parameter.grad = None  # optimisers pass it over
        waited_seconds, finite = 0.0, True
        come: list[int] = []
        for number, bucket in enumerate(self._posted):
            began = time.perf_counter()
            engine.wait(bucket)
            waited_seconds += time.perf_counter() - began
            if number < len(self._slices):  # the status may follow by itself
                come.append(number)
            following = self._posted[number + 1 : number + 2]
            if come and not (following and following[0].finished.is_set()):
                finite &= self._use(come)
                come = []
        for parameter, gradient in chain.from_iterable(self._gradients):
            parameter.grad = gradient
        return waited_seconds, finite

    def _use(self, buckets: Sequence[int]) -> bool:
        """Step along the gradients of these buckets, and clear them; whether they are finite."""
        parts = [self._flat[self._slices[number]] for number in buckets]
        finite = all(bool(np.isfinite(part.sum())) for part in parts)
        if finite:
            pairs = [pair for number in buckets for pair in self._gradients[number]]
            for parameter, gradient in pairs:
                parameter.grad = gradient
            self._optimizer.step()
            for parameter, _ in pairs:
                parameter.grad = None
        for part in parts:
            part.fill(0)
        return finite


def _buckets(
    lengths: Sequence[int], bucket_bytes: Literal["all", "each"] | int, buffer_length: int
) -> tuple[list[int], list[slice]]:
    """The bucket of each tensor, and the part of the buffer of each bucket; the last one also
    takes what follows the gradients."""
    limits = {"all": math.inf, "each": 0}
    limit = limits[bucket_bytes] if isinstance(bucket_bytes, str) else bucket_bytes
    first = limit if bucket_bytes == "all" else min(limit, FIRST_BUCKET_BYTES)
    bucket_of: list[int] = []
    starts = [0]
    end = 0
    for length in lengths:
        end += length
        bucket_of.append(len(starts) - 1)
        most = first if len(starts) == 1 else limit
        if (end - starts[-1]) * np.float32().itemsize >= most:
            starts.append(end)
    if len(starts) > 1 and starts[-1] == end:
        starts.pop()
    ends = [*starts[1:], buffer_length]
    return bucket_of, [slice(a, b) for a, b in zip(starts, ends, strict=True)]


def _check_types(model: torch.nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.dtype != torch.float32:
            raise TypeError(f"parameter {name} is {parameter.dtype}: only float32 is trained")
