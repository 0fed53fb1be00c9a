"""Optimisers, schedules and losses by name; LARS by its formula."""

import math

import pytest
import torch

from trainer import checkpoint
from trainer.formats import (
    LOSSES,
    OPTIMIZERS,
    SCHEDULERS,
    LossSpec,
    ModelSpec,
    OptimizerSpec,
    PlanError,
    SchedulerSpec,
    steps_of_one_cycle,
)
from trainer.models import build
from trainer.optimizers import (
    HEAD_WEIGHTS,
    LARS,
    build_loss,
    build_optimizer,
    build_scheduler,
    with_heads,
)

ARGS = {
    "StepLR": {"step_size": 2, "gamma": 0.5},
    "MultiStepLR": {"milestones": [2, 4]},
    "ExponentialLR": {"gamma": 0.9},
    "CosineAnnealingLR": {"T_max": 9},
    "CosineAnnealingWarmRestarts": {"T_0": 3},
    "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3},
    "OneCycleLR": {"max_lr": 0.1, "total_steps": 20},
}


def weights() -> list[torch.nn.Parameter]:
    torch.manual_seed(1)
    return [torch.nn.Parameter(torch.randn(shape)) for shape in ((5, 3), (3,))]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimiser_that_is_named_trains(name: str) -> None:
    parameters = weights()
    optimizer = build_optimizer(OptimizerSpec(name.lower(), {"lr": 0.01}), parameters)
    before = [p.detach().clone() for p in parameters]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert all(not torch.equal(p, old) for p, old in zip(parameters, before, strict=True))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_schedule_goes_on_after_a_checkpoint(name: str) -> None:
    def make():
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return model, optimizer, build_scheduler(SchedulerSpec(name, ARGS.get(name, {})), optimizer)

    def rates(optimizer, scheduler, steps: int) -> list[float]:
        found = []
        for _ in range(steps):
            optimizer.step()
            scheduler.step(*([1.0] if name == "ReduceLROnPlateau" else []))
            found.append(optimizer.param_groups[0]["lr"])
        return found

    model, optimizer, scheduler = make()
    rates(optimizer, scheduler, 3)
    payload = checkpoint.pack(model, optimizer, scheduler)
    other = make()
    checkpoint.unpack(payload, *other)
    assert rates(*other[1:], steps=9) == rates(optimizer, scheduler, steps=9)


def test_a_cycle_takes_as_many_steps_as_a_plan_may_make() -> None:
    spec = SchedulerSpec("OneCycleLR", {"max_lr": 0.1, "epochs": 4, "steps_per_epoch": 5})
    optimizer = torch.optim.SGD(weights(), lr=0.1, momentum=0.9)
    scheduler = build_scheduler(spec, optimizer)
    most = steps_of_one_cycle(spec)
    assert most == 20
    for _ in range(most):
        optimizer.step()
        scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 21 times"):
        scheduler.step()


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_that_is_named_is_one(name: str) -> None:
    loss = build_loss(LossSpec(name))
    assert loss(torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)).shape == ()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (
            lambda: build_optimizer(OptimizerSpec("adam", {"lr": 0.1, "speed": 3}), weights()),
            r"optimizer Adam\(lr=0.1, speed=3\): .*speed",
        ),
        (
            lambda: build_optimizer(OptimizerSpec("sgd", {"lr": 0.1, "momentum": -1}), weights()),
            "optimizer SGD.*momentum",
        ),
        (
            lambda: build_optimizer(OptimizerSpec("LARS", {"lr": 0.1, "trust": 0}), weights()),
            "optimizer LARS.*trust 0 must be above 0",
        ),
        (
            lambda: build_scheduler(SchedulerSpec("StepLR"), torch.optim.SGD(weights(), 0.1)),
            "schedule StepLR.*step_size",
        ),
        (
            lambda: build_loss(LossSpec("CrossEntropyLoss", {"label_smoothing": 2.0})),
            r"loss CrossEntropyLoss\(label_smoothing=2.0\)",
        ),
        (lambda: build_loss(LossSpec("NoLoss")), "loss NoLoss: torch .* on this phone has none"),
    ],
)
def test_what_torch_refuses_is_said_in_a_sentence(make, complaint: str) -> None:
    with pytest.raises(PlanError, match=complaint):
        make()


def test_lars_follows_its_formula() -> None:
    rate, momentum, decay, trust = 0.5, 0.8, 0.01, 0.02
    parameters = weights()
    w, b = (p.detach().double() for p in parameters)
    optimizer = LARS(parameters, rate, momentum, decay, trust)
    velocity = [torch.zeros_like(w), torch.zeros_like(b)]
    for step in range(4):
        for parameter in parameters:
            torch.manual_seed(step)
            parameter.grad = torch.randn_like(parameter)
        g, gb = (p.grad.double() for p in parameters)
        local = trust * w.norm() / (g.norm() + decay * w.norm())
        velocity[0] = momentum * velocity[0] + rate * local * (g + decay * w)
        velocity[1] = momentum * velocity[1] + rate * gb
        w, b = w - velocity[0], b - velocity[1]
        optimizer.step()
    torch.testing.assert_close(parameters[0].detach().double(), w, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(parameters[1].detach().double(), b, rtol=1e-5, atol=1e-6)


def test_the_trust_ratio_makes_steps_alike_whatever_the_gradient_s_size() -> None:
    weight, gradient = torch.full((2, 2), 3.0), torch.full((2, 2), 0.5)
    for size in (1e-3, 1.0, 1e3):
        ratio = LARS.trust_ratio(weight, gradient * size, 0.001, 0)
        assert ratio * (gradient * size).norm() == pytest.approx(0.001 * 6)
    assert LARS.trust_ratio(weight, gradient, 0.001, 0.1) == pytest.approx(0.006 / (1 + 0.6))
    assert LARS.trust_ratio(weight * 0, gradient, 0.001, 0.1) == 1
    assert LARS.trust_ratio(weight, gradient * 0, 0.001, 0.1) == 1


def test_heads_add_their_losses_in_training_only() -> None:
    torch.manual_seed(0)
    model = build(ModelSpec("googlenet", {"aux_logits": True, "num_classes": 4}))
    loss = torch.nn.functional.cross_entropy
    total = with_heads(loss, model)
    images, labels = torch.randn(2, 3, 32, 32), torch.tensor([1, 3])
    output = model(images)
    parts = [loss(each, labels).item() for each in output]
    assert total(output, labels).item() == pytest.approx(parts[0] + 0.3 * sum(parts[1:]))
    plain = model.eval()(images)
    assert total(plain, labels) == loss(plain, labels)
    assert math.isclose(HEAD_WEIGHTS["Inception3"], 0.4)
