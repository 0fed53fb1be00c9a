"""Batch normalisation over the samples of all phones, and running statistics that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

AllReduce = Callable[[np.ndarray], np.ndarray]
"""Sums an array of float64 over all ranks, in place."""

FEW_SAMPLES = 8
"""Below so many samples a phone, statistics of its own are too noisy to be left alone (Wu and
He 2018, arXiv:1803.08494, figure 1: the error rises from 8 on and steeply below)."""


class _SyncNormalise(torch.autograd.Function):
    """One message forward (sums of values, of squares, and their count), one backward."""

    @staticmethod
    def forward(ctx: Any, images: torch.Tensor, layer: SyncBatchNorm) -> torch.Tensor:
        """Normalised images, before weight and bias; `layer` learns the statistics."""
        axes = [axis for axis in range(images.ndim) if axis != 1]
        ctx.axes, ctx.layer, ctx.counts = axes, layer, layer.counts
        message = np.zeros(2 * images.shape[1] + 1)
        if layer.counts:
            wide = images.double()
            message[:-1] = torch.cat([wide.sum(axes), (wide * wide).sum(axes)]).numpy()
            message[-1] = images.numel() / images.shape[1]
        layer.all_reduce(message)
        count = ctx.count = message[-1]
        mean, squares = torch.from_numpy(message[:-1] / count).chunk(2)
        variance = (squares - mean * mean).clamp_(min=0)
        layer.learn(mean, variance, count)
        shape = [1, -1] + [1] * (images.ndim - 2)
        deviation = (variance + layer.eps).rsqrt().float().view(shape)
        normalised = (images - mean.float().view(shape)) * deviation
        ctx.save_for_backward(normalised, deviation)
        return normalised

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        normalised, deviation = ctx.saved_tensors
        message = np.zeros(2 * gradient.shape[1])
        if ctx.counts:
            wide = gradient.double()
            sums = [wide.sum(ctx.axes), (wide * normalised).sum(ctx.axes)]
            message[:] = torch.cat(sums).numpy()
        ctx.layer.all_reduce(message)
        if not ctx.counts:
            return torch.zeros_like(gradient), None
        sums = torch.from_numpy(message / ctx.count).float().chunk(2)
        mean, slope = (each.view(deviation.shape) for each in sums)
        return (gradient - mean - normalised * slope) * deviation, None


class SyncBatchNorm(nn.Module):
    """Stands in for a BatchNorm layer whose parameters and running statistics it takes over.

    In training it equals that layer on the samples of all ranks together. All ranks must run it
    at the same place; one without samples runs on any, with `counts` false.
    """

    def __init__(self, original: _BatchNorm, all_reduce: AllReduce) -> None:
        super().__init__()
        self.eps, self.momentum = original.eps, original.momentum
        self.weight, self.bias = original.weight, original.bias
        self.running_mean: torch.Tensor | None
        self.running_var: torch.Tensor | None
        self.num_batches_tracked: torch.Tensor | None
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(original, name))
        self.all_reduce = all_reduce
        self.counts = True
        """Whether this rank's samples are samples, and not there for the sake of the messages."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if not self.training:  # each rank in batches of its own: nothing is exchanged
            return nn.functional.batch_norm(
                images,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                training=self.running_mean is None,
                eps=self.eps,
            )
        normalised: torch.Tensor = _SyncNormalise.apply(images, self)
        if self.weight is None:
            return normalised
        shape = [1, -1] + [1] * (images.ndim - 2)
        return normalised * self.weight.view(shape) + self.bias.view(shape)

    @torch.no_grad()
    def learn(self, mean: torch.Tensor, variance: torch.Tensor, count: float) -> None:
        """Take the statistics of a batch of `count` values a channel into the running ones."""
        if self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None  # noqa: S101
        self.num_batches_tracked += 1
        share = self.momentum
        if share is None:  # the mean of all batches
            share = 1 / float(self.num_batches_tracked)
        unbiased = variance * (count / max(count - 1, 1))
        self.running_mean.lerp_(mean.float(), share)
        self.running_var.lerp_(unbiased.float(), share)


def synchronised(model: nn.Module, all_reduce: AllReduce) -> list[SyncBatchNorm]:
    """Put a SyncBatchNorm in the place of each BatchNorm in `model`; returns them."""
    found = []
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm):
                layer = SyncBatchNorm(child, all_reduce)
                setattr(parent, name, layer)
                found.append(layer)
    return found


def has_batch_norm(model: nn.Module) -> bool:
    """Whether a layer of the model computes with the statistics of a batch."""
    return any(isinstance(module, _BatchNorm) for module in model.modules())


@torch.no_grad()
def share_statistics(model: nn.Module, weight: float, all_reduce: AllReduce) -> None:
    """Give all ranks the same running statistics: the mean of all, weighted by each rank's share
    of the samples (`weight`; their sum is 1). In training, statistics play no part."""
    buffers = list(_running(model))
    if not buffers:
        return
    message = np.concatenate([buffer.double().flatten().numpy() for buffer in buffers]) * weight
    all_reduce(message)
    for buffer, part in zip(
        buffers, np.split(message, np.cumsum([b.numel() for b in buffers])[:-1]), strict=True
    ):
        values = torch.from_numpy(part).view(buffer.shape)
        buffer.copy_(values if buffer.is_floating_point() else values.round())


def _running(model: nn.Module) -> Iterator[torch.Tensor]:
    for module in model.modules():
        if isinstance(module, _BatchNorm) and module.running_mean is not None:
            yield from (module.running_mean, module.running_var, module.num_batches_tracked)
