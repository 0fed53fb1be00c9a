"""Depthwise convolution of torch models by our compiled kernels, where they are faster.

Without oneDNN, as on Termux, torch makes one matrix product of each channel.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv2d

from trainer import kernels
from trainer.kernels import KernelError, Kernels, Shape

_MEASURED_IMAGES = 4
"""Of a batch: what is faster for these is faster for all."""
_MEASURED_SECONDS = 0.02
_LEAST_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """How long a layer's forward and backward pass took by torch and by our kernels."""

    layer: str
    torch_seconds: float
    own_seconds: float

    @property
    def faster(self) -> bool:
        return self.own_seconds < self.torch_seconds


class DepthwiseConv2d(nn.Conv2d):
    """A depthwise nn.Conv2d by the kernels of `library`; what they do not know, torch does."""

    library: Path

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        plain = images.dtype == self.weight.dtype == torch.float32 and images.device.type == "cpu"
        if not plain or images.dim() != 4 or not images.numel():
            return super().forward(images)
        return convolve(
            kernels.load(self.library), images, self.weight, self.bias, self.stride[0], self.padding
        )


def convolve(
    library: Kernels, images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    stride: int, padding: tuple[int, int],
) -> torch.Tensor:  # fmt: skip
    """conv2d of float32 `images` (images, channels, height, width) by `weight` (channels, 1, k, k),
    as many groups as channels, differentiable once. Raises KernelError."""
    number, channels, height, width = images.shape
    shape = Shape(number, channels, height, width, weight.shape[-1], stride, *padding)
    result: torch.Tensor = _Depthwise.apply(library, shape, images, weight, bias)
    return result


def speed_up(
    model: nn.Module, images: torch.Tensor, batch: int, library: Path | None = None
) -> str:
    """Let our kernels do the depthwise layers of `model` that they do faster than torch in
    batches of `batch` images such as `images` (float32, a batch of its own).

    Parameters and their names stay. Returns what a person should know, empty if nothing.
    """
    layers = {name: layer for name, layer in model.named_modules() if _is_depthwise(layer)}
    if not layers:
        return ""
    path = library or kernels.shipped()
    try:
        found = measure(kernels.load(path), model, layers, images, batch)
    except KernelError as error:
        return f"{len(layers)} depthwise layers by torch: {error}"
    for each in found:
        if each.faster:
            layer = layers[each.layer]
            layer.__class__ = DepthwiseConv2d  # so that all who hold the layer have it
            layer.library = path
    return _in_words(found)


def measure(
    library: Kernels, model: nn.Module, layers: dict[str, nn.Conv2d], images: torch.Tensor,
    batch: int,
) -> list[Measured]:  # fmt: skip
    """Each of `layers`, for images as they reach it when `model` is given `images`. Raises
    KernelError."""
    sizes = _sizes(model, layers, images)
    times: dict[Shape, tuple[float, float]] = {}
    found = []
    for name, (channels, height, width) in sizes.items():
        layer = layers[name]
        number = min(batch, _MEASURED_IMAGES)
        shape = Shape(
            *(number, channels, height, width),
            *(layer.kernel_size[0], layer.stride[0], *layer.padding),
        )
        if shape not in times:
            times[shape] = _compare(library, shape)
        found.append(Measured(name, *times[shape]))
    return found


def _is_depthwise(layer: nn.Module) -> bool:
    # By its very class: a subclass, such as a parametrised layer, has a forward of its own.
    return (
        type(layer) is nn.Conv2d
        and 1 < layer.groups == layer.in_channels == layer.out_channels
        and layer.dilation == (1, 1)
        and layer.padding_mode == "zeros"
        and isinstance(layer.padding, tuple)
        and layer.kernel_size[0] == layer.kernel_size[1]
        and layer.stride[0] == layer.stride[1]
    )


def _sizes(
    model: nn.Module, layers: dict[str, nn.Conv2d], images: torch.Tensor
) -> dict[str, tuple[int, int, int]]:
    """Channels, height and width of what reaches each of `layers`, by a pass that leaves no
    trace in the model nor in torch's random numbers."""
    sizes: dict[str, tuple[int, int, int]] = {}

    def note(name: str) -> Callable[[nn.Module, tuple[torch.Tensor, ...]], None]:
        return lambda _, inputs: sizes.__setitem__(name, tuple(inputs[0].shape[1:]))

    hooks = [layer.register_forward_pre_hook(note(name)) for name, layer in layers.items()]
    training = {each: each.training for each in model.modules()}
    try:
        model.eval()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            model(images)
    except Exception as error:
        raise KernelError(f"the model does not take such images: {error}") from error
    finally:
        for hook in hooks:
            hook.remove()
        for each, was in training.items():
            each.training = was
    return sizes


def _compare(library: Kernels, shape: Shape) -> tuple[float, float]:
    """Seconds of a forward and a backward pass by torch and by `library`."""
    generator = torch.Generator().manual_seed(0)
    size = (shape.images, shape.channels, shape.height, shape.width)
    images = torch.rand(size, generator=generator, requires_grad=True)
    weight = torch.rand(
        (shape.channels, 1, shape.kernel, shape.kernel), generator=generator, requires_grad=True
    )
    padding = (shape.pad_y, shape.pad_x)
    slope = torch.rand(
        (shape.images, shape.channels, shape.out_height, shape.out_width), generator=generator
    )

    def by_torch() -> torch.Tensor:
        return conv2d(images, weight, None, shape.stride, padding, groups=shape.channels)

    def by_us() -> torch.Tensor:
        return convolve(library, images, weight, None, shape.stride, padding)

    def seconds(work: Callable[[], torch.Tensor]) -> float:
        best, began, repeats = float("inf"), time.perf_counter(), 0
        while repeats < _LEAST_REPEATS or time.perf_counter() - began < _MEASURED_SECONDS:
            start = time.perf_counter()
            torch.autograd.grad(work(), (images, weight), slope)
            best, repeats = min(best, time.perf_counter() - start), repeats + 1
        return best

    return seconds(by_torch), seconds(by_us)


def _in_words(found: list[Measured]) -> str:
    ours = [each for each in found if each.faster]
    if not ours:
        return f"{len(found)} depthwise layers by torch, which is faster here"
    gain = sum(each.torch_seconds for each in ours) / sum(each.own_seconds for each in ours)
    return (
        f"{len(ours)} of {len(found)} depthwise layers by our kernels, {gain:.1f} times as fast "
        "as torch"
    )


class _Depthwise(torch.autograd.Function):
    """convolve() with its gradients."""

    @staticmethod
    def forward(
        ctx: Any, library: Kernels, shape: Shape,
        images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    ) -> torch.Tensor:  # fmt: skip
        images, weight = images.contiguous(), weight.contiguous()
        ctx.save_for_backward(images, weight)
        ctx.library, ctx.shape = library, shape
        size = (shape.images, shape.channels, shape.out_height, shape.out_width)
        result = images.new_empty(size)
        own_bias = None if bias is None else bias.contiguous()
        library.depthwise(
            "forward", shape, images.data_ptr(), weight.data_ptr(), result.data_ptr(),
            bias=0 if own_bias is None else own_bias.data_ptr(), threads=torch.get_num_threads(),
        )  # fmt: skip
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        library, shape = ctx.library, ctx.shape
        images, weight = ctx.saved_tensors
        slope, threads = slope.contiguous(), torch.get_num_threads()
        of_images = of_weight = of_bias = None
        if ctx.needs_input_grad[2]:
            of_images = torch.empty_like(images)
            library.depthwise(
                "input_gradient", shape, slope.data_ptr(), weight.data_ptr(),
                of_images.data_ptr(), threads=threads,
            )  # fmt: skip
        if ctx.needs_input_grad[3]:
            of_weight = torch.empty_like(weight)
            library.depthwise(
                "weight_gradient", shape, images.data_ptr(), slope.data_ptr(),
                of_weight.data_ptr(), threads=threads,
            )  # fmt: skip
        if ctx.needs_input_grad[4]:
            of_bias = slope.sum((0, 2, 3))
        return None, None, of_images, of_weight, of_bias
