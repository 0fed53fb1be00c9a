"""What depthwise.py starts in the lab image: prints its measurements as JSON.

python3 depthwise_lab.py LIBRARY THREADS BATCH SIDE ROUNDS
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainer import models
from trainer.depthwise import DepthwiseConv2d
from trainer.formats import ModelSpec
from trainer.kernels import Shape, load

LAYER_REPEATS = 5
CLASSES = 1000
MODELS = ("mobilenet-v1", "mobilenet-v2")


def is_depthwise(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Conv2d) and 1 < layer.groups == layer.in_channels


# --- a depthwise layer that costs nothing -------------------------------------------------


class _Free(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _: torch.Tensor, result: torch.Tensor, slope: torch.Tensor) -> Any:
        ctx.slope = slope
        return result.detach()

    @staticmethod
    def backward(ctx: Any, _: torch.Tensor) -> Any:
        return ctx.slope.detach(), None, None


class FreeDepthwise(nn.Module):
    """Results and gradients of the right shapes, made once."""

    def __init__(self, layer: nn.Conv2d) -> None:
        super().__init__()
        self._layer, self._made = layer, ()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if not self._made:
            with torch.no_grad():
                result = self._layer(images)
            self._made = (result, torch.rand_like(images) * 1e-3)
        return _Free.apply(images, *self._made)


def with_free(model: nn.Module) -> nn.Module:
    model = copy.deepcopy(model)
    for name, layer in list(model.named_modules()):
        if is_depthwise(layer):
            model.set_submodule(name, FreeDepthwise(layer))
    return model


def with_ours(model: nn.Module, library: Path) -> nn.Module:
    model = copy.deepcopy(model)
    for layer in filter(is_depthwise, model.modules()):
        layer.__class__, layer.library = DepthwiseConv2d, library
    return model


# --- measuring ----------------------------------------------------------------------------


def milliseconds(work: Callable[[], object]) -> float:
    # One thread's time on the processor is what it would take on a machine without other work.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    work()
    return (clock() - start) * 1e3


def in_turns(works: list[Callable[[], object]], rounds: int) -> list[float]:
    """The best of each: nothing but other work on the machine makes one slower."""
    for work in works:
        work()
    times = [[milliseconds(work) for work in works] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def step_of(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def steps(library: Path, batch: int, side: int, rounds: int) -> list[dict[str, Any]]:
    images, labels = torch.rand(batch, 3, side, side), torch.randint(CLASSES, (batch,))
    found = []
    for name in MODELS:
        model = models.build(ModelSpec(name))
        kinds = [model, with_ours(model, library), with_free(model)]
        best = in_turns([step_of(each, images, labels) for each in kinds], rounds)
        times = dict(zip(("torch_ms", "own_ms", "free_ms"), best, strict=True))
        found.append({"model": name, "batch": batch, "side": side, **times})
    return found


def sizes(model: nn.Module, batch: int, side: int) -> Counter[Shape]:
    """The kinds of depthwise layers of a model, and how many there are of each."""
    found: Counter[Shape] = Counter()

    def note(layer: nn.Conv2d, inputs: tuple[torch.Tensor]) -> None:
        (kernel, _), (stride, _) = layer.kernel_size, layer.stride
        found[Shape(*inputs[0].shape, kernel, stride, *layer.padding)] += 1

    for layer in filter(is_depthwise, model.modules()):
        layer.register_forward_pre_hook(note)
    with torch.no_grad():
        model(torch.rand(batch, 3, side, side))
    return found


def operators(library: Path, shape: Shape) -> list[dict[str, Any]]:
    kernels, threads = load(library), torch.get_num_threads()
    images = torch.rand(shape.images, shape.channels, shape.height, shape.width)
    weight = torch.rand(shape.channels, 1, shape.kernel, shape.kernel)
    stride, padding = [shape.stride] * 2, [shape.pad_y, shape.pad_x]
    slope = torch.rand(shape.images, shape.channels, shape.out_height, shape.out_width)

    def by_torch(*wanted: bool) -> Callable[[], object]:
        return lambda: torch.ops.aten.convolution_backward(
            slope, images, weight, None, stride, padding, [1, 1], False, [0, 0],
            shape.channels, [*wanted, False],
        )  # fmt: skip

    def by_us(operation: Any, a: torch.Tensor, b: torch.Tensor, like: torch.Tensor) -> Any:
        def work() -> None:
            result = torch.empty_like(like)
            addresses = (a.data_ptr(), b.data_ptr(), result.data_ptr())
            kernels.depthwise(operation, shape, *addresses, threads=threads)

        return work

    pairs = {
        "forward": (
            lambda: torch.conv2d(images, weight, None, stride, padding, groups=shape.channels),
            by_us("forward", images, weight, slope),
        ),
        "input gradient": (
            by_torch(True, False),
            by_us("input_gradient", slope, weight, images),
        ),
        "weight gradient": (
            by_torch(False, True),
            by_us("weight_gradient", images, slope, weight),
        ),
    }
    layer = f"{shape.channels} x {shape.height}²" + (" / 2" if shape.stride == 2 else "")
    found = []
    for operator, works in pairs.items():
        torch_ms, own_ms = in_turns(list(works), LAYER_REPEATS)
        times = {"torch_ms": torch_ms, "own_ms": own_ms}
        found.append({"layer": layer, "operator": operator, **times})
    return found


def main() -> None:
    library, threads, batch, side, rounds = Path(sys.argv[1]), *map(int, sys.argv[2:])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    found: dict[str, Any] = {"threads": threads, "operators": [], "torch": torch.__version__}
    with torch.backends.mkldnn.flags(enabled=False):
        found["steps"] = steps(library, batch, side, rounds)
        with torch.no_grad():
            counts = {name: sizes(models.build(ModelSpec(name)), batch, side) for name in MODELS}
            measured = {kind: operators(library, kind) for kind in set().union(*counts.values())}
            for name, kinds in counts.items():
                for kind, count in kinds.items():
                    about = {"model": name, "layers": count}
                    found["operators"] += [about | each for each in measured[kind]]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
