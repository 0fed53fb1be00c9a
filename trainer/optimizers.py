"""Optimisers, schedulers and losses by name: torch's, and LARS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from trainer.formats import (
    LOSSES,
    OPTIMIZERS,
    SCHEDULERS,
    LossSpec,
    OptimizerSpec,
    PlanError,
    SchedulerSpec,
    class_name,
)

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class LARS(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling (You, Gitman, Ginsburg 2017, arXiv:1708.03888, eq. 6):

    each tensor's rate is lr · trust · |w| / (|g| + weight_decay · |w|), with momentum on the
    product. Tensors of one dimension (biases, normalisation) keep the plain rate and no decay.
    """

    def __init__(
        self,
        params: Iterable[torch.Tensor],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        """Raises ValueError for values out of range."""
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            if not value >= 0:
                raise ValueError(f"{name} {value} is negative")
        if not trust > 0:
            raise ValueError(f"trust {trust} must be above 0")
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # noqa: ARG002  torch's signature
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, weight: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        rate, change = group["lr"], gradient
        if weight.ndim > 1:
            decay = group["weight_decay"]
            change = gradient.add(weight, alpha=decay)
            rate *= self.trust_ratio(weight, gradient, group["trust"], decay)
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        momentum = state["momentum_buffer"]
        momentum.mul_(group["momentum"]).add_(change, alpha=rate)
        weight.sub_(momentum)

    @staticmethod
    def trust_ratio(
        weight: torch.Tensor, gradient: torch.Tensor, trust: float, weight_decay: float
    ) -> float:
        """What the rate of a tensor is multiplied by; 1 where a norm is 0."""
        norm, pull = float(weight.norm()), float(gradient.norm())
        if not (norm and pull):
            return 1.0
        return trust * norm / (pull + weight_decay * norm)


def build_optimizer(
    spec: OptimizerSpec, parameters: Iterable[torch.nn.Parameter]
) -> torch.optim.Optimizer:
    """Raises PlanError for a name that this torch lacks, or for arguments that it refuses."""
    name = class_name(spec.name, OPTIMIZERS) or spec.name
    constructor = LARS if name == "LARS" else getattr(torch.optim, name, None)
    optimizer: torch.optim.Optimizer = _made("optimizer", name, constructor, spec.args, parameters)
    return optimizer


def build_scheduler(spec: SchedulerSpec | None, optimizer: torch.optim.Optimizer) -> Any:
    """A scheduler of torch, if any. Raises PlanError as `build_optimizer`."""
    if spec is None:
        return None
    name = class_name(spec.name, SCHEDULERS) or spec.name
    constructor = getattr(torch.optim.lr_scheduler, name, None)
    return _made("schedule", name, constructor, spec.args, optimizer)


def build_loss(spec: LossSpec) -> Loss:
    """A loss of torch. Raises PlanError as `build_optimizer`."""
    name = class_name(spec.name, LOSSES) or spec.name
    loss: Loss = _made("loss", name, getattr(torch.nn, name, None), spec.args)
    try:
        loss(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64))
    except (TypeError, ValueError, RuntimeError) as error:
        raise PlanError(f"loss {name}({_shown(spec.args)}): {error}") from None
    return loss


def _made(what: str, name: str, constructor: Any, args: dict[str, Any], *first: Any) -> Any:
    if constructor is None:
        raise PlanError(f"{what} {name}: torch {torch.__version__} on this phone has none")
    # JSON knows lists only, torch some arguments as tuples.
    plain = {key: tuple(v) if isinstance(v, list) and key == "betas" else v
             for key, v in args.items()}  # fmt: skip
    try:
        return constructor(*first, **plain)
    except (TypeError, ValueError) as error:
        raise PlanError(f"{what} {name}({_shown(args)}): {error}") from None


def _shown(args: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in args.items())


@contextmanager
def scaled_rates(optimizer: torch.optim.Optimizer, factor: float) -> Iterator[None]:
    """The learning rates times `factor` for as long as the block lasts."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate * factor
    try:
        yield
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate


HEAD_WEIGHTS = {"GoogLeNet": 0.3, "Inception3": 0.4}
"""Of the losses of auxiliary heads, by the model's class: those of the models' papers, which
torchvision's reference training uses too."""


def with_heads(loss: Loss, model: torch.nn.Module) -> Loss:
    """`loss`, to which in training the model's auxiliary heads add theirs."""
    weight = HEAD_WEIGHTS.get(type(model).__name__)
    if weight is None:
        return loss

    def total(output: Any, labels: torch.Tensor) -> torch.Tensor:
        if isinstance(output, torch.Tensor):
            return loss(output, labels)
        logits, *heads = (each for each in output if each is not None)
        value = loss(logits, labels)
        for head in heads:
            value = value + weight * loss(head, labels)
        return value

    return total
