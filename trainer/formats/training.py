"""Optimiser, schedule and loss of a plan: torch's own by name, and what fleetctl knows of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

LARS = "LARS"
"""Ours (trainer.optimizers); all other optimisers are torch's."""

OPTIMIZERS = (
    *("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop"),
    *("Rprop", "ASGD", "Adafactor", LARS),
)
"""Classes of torch.optim (in any case: `sgd` is SGD), and LARS."""

SCHEDULERS = (
    *("StepLR", "MultiStepLR", "ExponentialLR", "PolynomialLR", "CosineAnnealingLR", "LinearLR"),
    *("ConstantLR", "CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR", "ReduceLROnPlateau"),
)
"""Classes of torch.optim.lr_scheduler that numbers describe."""

RATES_OF_THEIR_OWN = ("CyclicLR", "OneCycleLR")
"""Schedulers that set the optimiser's learning rate themselves, from their own arguments."""

LOSSES = ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss")
"""Classes of torch.nn that compare a row of scores with the number of a class."""

# Why a name that torch has is no name here; said instead of "unknown".
_UNFIT: Mapping[str, str] = MappingProxyType(
    {
        "LBFGS": "it evaluates the model several times a step",
        "SparseAdam": "it is for sparse gradients, the exchange sums dense ones",
        "LambdaLR": "it needs a function",
        "MultiplicativeLR": "it needs a function",
        "SequentialLR": "it needs other schedulers; `warmup_iterations` gives a warm-up",
        "ChainedScheduler": "it needs other schedulers",
    }
)


@dataclass(frozen=True, slots=True)
class OptimizerSpec:
    """An optimiser by name; `args` are its keyword arguments (lr, momentum, …)."""

    name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SchedulerSpec:
    """A scheduler of torch.optim.lr_scheduler; `args` are its keyword arguments."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    every: Literal["iteration", "epoch"] = "epoch"
    """When it makes a step. ReduceLROnPlateau makes one after each evaluation, by the test loss."""


@dataclass(frozen=True, slots=True)
class LossSpec:
    """A loss of torch.nn; `args` are its keyword arguments (label_smoothing, …)."""

    name: str = "CrossEntropyLoss"
    args: dict[str, Any] = field(default_factory=dict)


def has_own_rate(scheduler: SchedulerSpec | None) -> bool:
    """Whether the optimiser's learning rate counts for nothing beside it."""
    return scheduler is not None and class_name(scheduler.name, RATES_OF_THEIR_OWN) is not None


def steps_of_one_cycle(scheduler: SchedulerSpec | None) -> int | None:
    """After how many steps a scheduler refuses another one; None: never."""
    if scheduler is None or class_name(scheduler.name, SCHEDULERS) != "OneCycleLR":
        return None
    names = ("total_steps", "epochs", "steps_per_epoch")
    total, epochs, per_epoch = map(scheduler.args.get, names)
    if isinstance(total, int):
        return total
    if isinstance(epochs, int) and isinstance(per_epoch, int):
        return epochs * per_epoch
    return None  # torch says what it lacks


def class_name(name: str, names: tuple[str, ...]) -> str | None:
    """The one of `names` that is meant, in whatever case it is written; None if it is none."""
    return next((each for each in names if each.lower() == name.lower()), None)


def conditions(
    optimizer: OptimizerSpec, scheduler: SchedulerSpec | None, loss: LossSpec
) -> list[tuple[bool, str]]:
    """What must be true of the three, each with the sentence for when it is not."""
    rate = optimizer.args.get("lr")
    return [
        _known("optimizer", optimizer.name, OPTIMIZERS),
        ("lr" in optimizer.args, "optimizer.args has no lr, the learning rate"),
        (
            rate is None or (type(rate) in (int, float) and rate > 0),
            f"optimizer.args: lr {rate!r} must be a number above 0",
        ),
        _known("loss", loss.name, LOSSES),
        *[
            (
                name not in loss.args,
                f"loss.args has {name}: the loss of the global batch is the mean of those of the "
                "phones, weighted by their samples, which that would spoil",
            )
            for name in ("reduction", "weight", "ignore_index", "size_average", "reduce")
        ],
        *([] if scheduler is None else [_known("scheduler", scheduler.name, SCHEDULERS)]),
    ]


def _known(what: str, name: str, names: tuple[str, ...]) -> tuple[bool, str]:
    reason = next((why for each, why in _UNFIT.items() if each.lower() == name.lower()), None)
    said = f"does not fit: {reason}" if reason else "is unknown"
    return class_name(name, names) is not None, f"{what} {name!r} {said}; known: {', '.join(names)}"
