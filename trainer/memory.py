"""`python -m trainer.memory SHAPE < plan.json`: what a rank of the plan will need in memory.

The model, its loss, optimiser and schedule are built and run once with tensors that have shapes
and no contents (torch's meta device), so that it takes no memory and little time; what torch
refuses is thus refused before anything starts. Prints a MemoryNeed.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from trainer import models
from trainer.errors import TrainerError
from trainer.formats import MemoryNeed, Plan
from trainer.optimizers import build_loss, build_optimizer, build_scheduler, with_heads

_MPI_BYTES = 48 << 20
_COPIES = 4
"""Of parameters and state when they are packed, sent, and unpacked."""
_SLACK = 1.15
"""What an allocator leaves unused; measured, see tests/trainer/lab/test_memory.py."""


def need(plan: Plan, shape: tuple[int, ...]) -> MemoryNeed:
    """`shape`: channels, height, width. Raises PlanError for what torch refuses."""
    __import__("torchvision")  # it does not import where tensors are without contents
    runtime = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + _MPI_BYTES
    loss = build_loss(plan.loss)
    with torch.device("meta"):
        model = models.build(plan.model)
        optimizer = build_optimizer(plan.optimizer, model.parameters())
        build_scheduler(plan.scheduler, optimizer)
        kept = [_step_bytes(model, with_heads(loss, model), shape, count) for count in (2, 4)]
    parameters = _bytes(model.state_dict().values())
    state = _state_bytes(optimizer, parameters)
    # The gradient of a tensor is there once more before it is added to the buffer of all.
    largest = max(_bytes([parameter]) for parameter in model.parameters())
    return MemoryNeed(
        runtime_bytes=runtime,
        model_bytes=2 * parameters + largest + state,
        copies_bytes=_COPIES * (parameters + state),
        sample_bytes=int(_SLACK * (kept[1] - kept[0]) / 2),
    )


def _state_bytes(optimizer: torch.optim.Optimizer, parameters: int) -> int:
    """What the optimiser keeps. One that looks at numbers, which there are none of here, is taken
    to keep two for each parameter, as the hungriest of them do."""
    try:
        optimizer.step()
    except (RuntimeError, NotImplementedError):
        return 2 * parameters
    return _bytes(_tensors(optimizer.state_dict()["state"]))


def _step_bytes(model: nn.Module, loss: Any, shape: tuple[int, ...], samples: int) -> int:
    """What a step keeps for its backward pass, and the largest workspace of a layer."""
    own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}  # the tensors, so that none is freed and counted anew
    workspace = 0

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        number = tensor.untyped_storage()._cdata
        if number not in own:
            kept[number] = tensor
        return tensor

    def look(layer: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal workspace
        if isinstance(output, torch.Tensor):
            # The gradients of what a layer takes and gives exist side by side.
            workspace = max(workspace, _bytes([*inputs, output]) + _columns(layer, output))

    hooks = [
        module.register_forward_hook(look)
        for module in model.modules()
        if not list(module.children())
    ]
    images = torch.zeros(samples, *shape, device="meta")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        value = loss(model(images), torch.zeros(samples, dtype=torch.int64, device="meta"))
        value.backward()
    for hook in hooks:
        hook.remove()
    stored = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    return stored + workspace + _bytes([images])


def _columns(layer: nn.Module, output: torch.Tensor) -> int:
    """Without oneDNN, as on a phone, torch unfolds the images of a convolution first."""
    if torch.backends.mkldnn.is_available() or not isinstance(layer, nn.Conv2d):
        return 0
    rows = layer.in_channels // layer.groups * layer.kernel_size[0] * layer.kernel_size[1]
    return output.shape[0] * output.shape[2] * output.shape[3] * rows * output.element_size()


def _tensors(state: Any) -> Iterable[torch.Tensor]:
    for values in state.values():
        yield from (each for each in values.values() if isinstance(each, torch.Tensor))


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def main() -> int:
    """The exit status: 0, or 2 with the reason on stderr."""
    try:
        plan = Plan.from_json(sys.stdin.read(), "plan")
        shape = tuple(int(side) for side in sys.argv[1].split("x"))
        print(need(plan, shape).to_json())
    except (TrainerError, ModuleNotFoundError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
