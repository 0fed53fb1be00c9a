"""Time training steps of one phone by itself: forward, backward, optimiser; and how much fits.

On any device of torch; the phones of a rack only have `cpu`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from trainer import depthwise
from trainer.errors import TrainerError
from trainer.formats import (
    ComputeCase,
    Computed,
    ComputeSpec,
    ComputeTime,
    Input,
    LargestBatch,
    ModelSpec,
    OptimizerSpec,
    PlanError,
    fitted_to,
    misfit,
)
from trainer.measure.heat import celsius
from trainer.measure.memory import largest_batch
from trainer.models import build
from trainer.optimizers import build_optimizer, with_heads
from trainer.threads import compute_with

_WARM_UP_STEPS = 2
_BURST_STEPS = 3
_SUSTAINED_SHARE = 3
_LEAST_STEPS = 2 * _BURST_STEPS


class DeviceError(TrainerError):
    """torch has no such device here."""


def measure(spec: ComputeSpec) -> Computed:
    """What this phone does. A case that fails is listed as missing, with the reason."""
    device = _device(spec.device)
    phone = spec.phones[_rank()]
    times, largest, missing = [], [], []
    for case in spec.cases:
        try:
            times.append(_case(case, spec, device))
        except (TrainerError, RuntimeError, ValueError) as error:
            missing.append(f"{phone}: {case.model.name}, batch {case.batch}: {_first_line(error)}")
    sound = [time.case for time in times]  # what fails with memory to spare is no matter of memory
    for case in {(c.model.name, c.input, c.threads): c for c in sound}.values():
        if spec.memory is not None:
            found = largest_batch(case, spec.optimizer, spec.memory, spec.device)
            largest += [found] if isinstance(found, LargestBatch) else []
            missing += [f"{phone}: {found}"] if isinstance(found, str) else []
    return Computed(
        phone,
        _name_of(device),
        torch.__version__,
        tuple(times),
        tuple(largest),
        tuple(missing),
    )


def _rank() -> int:
    from trainer.measure.__main__ import own_rank

    return own_rank()


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise DeviceError(f"device {name!r}: {_first_line(error)}") from None
    return device


def _name_of(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


@dataclass(frozen=True, slots=True)
class _Step:
    forward: float
    backward: float
    optimizer: float

    @property
    def total(self) -> float:
        return self.forward + self.backward + self.optimizer


class Trainee:
    """A model with its optimiser and one synthetic batch, ready to make steps."""

    def __init__(self, case: ComputeCase, optimizer: OptimizerSpec, device: torch.device) -> None:
        compute_with(case.threads)
        torch.manual_seed(0)
        self.model = build_for(case.model, case.input).to(device).train()
        self._loss = with_heads(torch.nn.functional.cross_entropy, self.model)
        self._optimizer = build_optimizer(optimizer, self.model.parameters())
        images, labels = synthetic(case.input, case.batch)
        if device.type == "cpu":
            depthwise.speed_up(self.model, images[:1], case.batch)  # as in a run
        self._images, self._labels = images.to(device), labels.to(device)
        self._wait = _waiter(device)

    def step(self) -> _Step:
        """One step of training, timed in its three parts."""
        self._optimizer.zero_grad()
        began = time.perf_counter()
        loss = self._loss(self.model(self._images), self._labels)
        self._wait()
        forward = time.perf_counter()
        loss.backward()
        self._wait()
        backward = time.perf_counter()
        self._optimizer.step()
        self._wait()
        return _Step(forward - began, backward - forward, time.perf_counter() - backward)


def synthetic(shape: Input, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random images in [0, 1) and labels; what is in them does not change the time."""
    return torch.rand(batch, *shape.shape), torch.randint(shape.classes, (batch,))


def build_for(model: ModelSpec, given: Input) -> torch.nn.Module:
    """The model for such images and classes. Raises PlanError if the two do not fit."""
    if reason := misfit(model, given.shape, given.classes):
        raise PlanError(reason)
    return build(fitted_to(model, given.shape, given.classes))


def _waiter(device: torch.device) -> Callable[[], None]:
    """An accelerator works behind our back; the time is known when it has finished."""
    module = getattr(torch, device.type, None)
    wait: Callable[[], None] | None = getattr(module, "synchronize", None)
    return wait if wait is not None else lambda: None


def _case(case: ComputeCase, spec: ComputeSpec, device: torch.device) -> ComputeTime:
    """Steps for `spec.seconds`: the first few are the burst, the last third is what lasts."""
    trainee = Trainee(case, spec.optimizer, device)
    for _ in range(_WARM_UP_STEPS):
        trainee.step()
    before = celsius()
    steps: list[_Step] = []
    began = time.perf_counter()
    while len(steps) < _LEAST_STEPS or time.perf_counter() - began < spec.seconds:
        steps.append(trainee.step())
    lasting = _last_third(steps)
    return ComputeTime(
        case=case,
        steps=len(steps),
        forward_seconds=median(step.forward for step in lasting),
        backward_seconds=median(step.backward for step in lasting),
        optimizer_seconds=median(step.optimizer for step in lasting),
        step_seconds=median(step.total for step in lasting),
        burst_step_seconds=median(step.total for step in steps[:_BURST_STEPS]),
        celsius_before=before,
        celsius_after=celsius(),
        gradient_bytes=4 * sum(p.numel() for p in trainee.model.parameters() if p.requires_grad),
    )


def _last_third(steps: list[_Step]) -> list[_Step]:
    """Those that began in the last third of the time."""
    left = sum(step.total for step in steps) / _SUSTAINED_SHARE
    for place in range(len(steps) - 1, -1, -1):
        left -= steps[place].total
        if left <= 0:
            return steps[place:]
    return steps
