"""One training step. Data-parallel: every phone has the whole model and its share of the batch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch

from trainer.exchange.engine import Bucket, Engine

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step gave. Without exchange, `loss` is this phone's own."""

    loss: float
    """Mean over the global batch."""
    own_loss: float | None
    """Mean over this rank's samples; None when it has none."""
    bad_ranks: tuple[int, ...]
    """Ranks whose loss is not finite."""
    compute_seconds: float
    exchange_seconds: float
    """Work of the communication thread, partly behind the compute."""
    wait_seconds: float
    """The part of it that was not hidden."""


class DataParallel:
    """Gradients are views of one flat buffer; a bucket is posted when its last gradient is
    there, so that its exchange overlaps the rest of the backward pass.

    The buffer holds the gradients in reverse order of the parameters (the order in which they
    become ready), then the loss and one flag a rank, which thus cost no message of their own.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        engine: Engine | None,
        bucket_bytes: Literal["all", "each"] | int,
    ) -> None:
        """`engine` is None where each phone trains alone."""
        self._model, self._loss, self._optimizer, self._engine = model, loss, optimizer, engine
        self._rank, self._size = (engine.rank, engine.size) if engine else (0, 1)
        parameters = [p for p in reversed(list(model.parameters())) if p.requires_grad]
        _check_types(model)
        lengths = [p.numel() for p in parameters]
        gradients = sum(lengths)
        self._buffer = np.zeros(gradients + 1 + self._size, np.float32)
        self._status = self._buffer[gradients:]
        flat = torch.from_numpy(self._buffer)
        for parameter, part in zip(parameters, flat[:gradients].split(lengths), strict=True):
            parameter.grad = part.view_as(parameter)
        # A lossy codec is kept from the loss and the flags, which then go by themselves.
        end = gradients if engine and engine.lossy else len(self._buffer)
        bucket_of, self._slices = _buckets(lengths, bucket_bytes, end)
        self._sizes = [bucket_of.count(i) for i in range(len(self._slices))]
        for parameter, bucket in zip(parameters, bucket_of, strict=True):
            parameter.register_post_accumulate_grad_hook(partial(self._ready, bucket))
        self._missing: list[int] = []
        self._posted: list[Bucket] = []

    def step(self, images: torch.Tensor, labels: torch.Tensor, global_batch: int) -> StepResult:
        """Train on this rank's samples (perhaps none) out of `global_batch` over all ranks."""
        began = time.perf_counter()
        self._buffer.fill(0)
        self._missing, self._posted = list(self._sizes), []
        own_loss = None
        if len(labels):
            loss = self._loss(self._model(images), labels)
            own_loss = loss.item()
            # The mean over the global batch is the sum over ranks of n_i / n times rank i's mean.
            weight = len(labels) / global_batch
            self._status[0] = own_loss * weight
            self._status[1 + self._rank] = not math.isfinite(own_loss)
            (loss * weight).backward()
        self._missing = [0] * len(self._missing)  # a parameter may be without gradient
        self._post_ready()
        computed = time.perf_counter()
        for bucket in self._posted:
            self._engine_wait(bucket)
        waited = time.perf_counter()
        bad_ranks = tuple(int(rank) for rank in np.flatnonzero(self._status[1:]))
        if not bad_ranks:
            self._optimizer.step()
        ended = time.perf_counter()
        return StepResult(
            loss=float(self._status[0]),
            own_loss=own_loss,
            bad_ranks=bad_ranks,
            compute_seconds=computed - began + ended - waited,
            exchange_seconds=sum(bucket.seconds for bucket in self._posted),
            wait_seconds=waited - computed,
        )

    def _ready(self, bucket: int, _: torch.Tensor) -> None:
        self._missing[bucket] -= 1
        self._post_ready()

    def _post_ready(self) -> None:
        """Post what is complete, in the order of the buckets: it must be equal on all ranks."""
        if self._engine is None:
            return
        while len(self._posted) < len(self._slices) and self._missing[len(self._posted)] == 0:
            part = self._slices[len(self._posted)]
            self._posted.append(self._engine.post(self._buffer[part]))
        if self._engine.lossy and len(self._posted) == len(self._slices):
            self._posted.append(self._engine.post(self._status, exact=True))

    def _engine_wait(self, bucket: Bucket) -> None:
        if self._engine is not None:
            self._engine.wait(bucket)


def _buckets(
    lengths: Sequence[int], bucket_bytes: Literal["all", "each"] | int, buffer_length: int
) -> tuple[list[int], list[slice]]:
    """The bucket of each tensor, and the part of the buffer of each bucket; the last one also
    takes what follows the gradients."""
    limits = {"all": math.inf, "each": 0}
    limit = limits[bucket_bytes] if isinstance(bucket_bytes, str) else bucket_bytes
    bucket_of: list[int] = []
    starts = [0]
    end = 0
    for length in lengths:
        end += length
        bucket_of.append(len(starts) - 1)
        if (end - starts[-1]) * np.float32().itemsize >= limit:
            starts.append(end)
    if len(starts) > 1 and starts[-1] == end:
        starts.pop()
    ends = [*starts[1:], buffer_length]
    return bucket_of, [slice(a, b) for a, b in zip(starts, ends, strict=True)]


def _check_types(model: torch.nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.dtype != torch.float32:
            raise TypeError(f"parameter {name} is {parameter.dtype}: only float32 is trained")
