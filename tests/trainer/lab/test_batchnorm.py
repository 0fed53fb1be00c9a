"""Synchronised BatchNorm equals BatchNorm on all samples at once, forward and backward."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from worlds import with_engines

from trainer.batchnorm import share_statistics, synchronised
from trainer.step import DataParallel

torch.set_num_threads(1)


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        *(nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6), nn.ReLU()),
        *(nn.Conv2d(6, 4, 3, bias=False), nn.BatchNorm2d(4, affine=False), nn.Flatten()),
        *(nn.Linear(16, 8), nn.BatchNorm1d(8, momentum=None), nn.Linear(8, 3)),
    )


def batch(samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(samples)
    images = torch.randn(samples, 2, 6, 6, generator=generator) * 3 + 5
    return images, torch.randint(0, 3, (samples,), generator=generator)


@pytest.mark.parametrize("shares", [(8,), (6, 6), (1, 9, 2), (0, 5, 4, 0)])
@pytest.mark.parametrize("bucket_bytes", ["all", "each"])
def test_many_ranks_equal_one_process_with_the_global_batch(shares, bucket_bytes) -> None:
    first = network()
    images, labels = batch(sum(shares))
    loss = nn.CrossEntropyLoss()

    def train(engine) -> dict[str, torch.Tensor]:
        model = copy.deepcopy(first)
        sgd = torch.optim.SGD(model.parameters(), 0.1, 0.9)
        executor = DataParallel(model, loss, sgd, engine, bucket_bytes, sync_batch_norm=True)
        start = sum(shares[: engine.rank])
        own = slice(start, start + shares[engine.rank])
        for _ in range(3):
            result = executor.step(images[own], labels[own], sum(shares))
            assert result.bad == {}
        return model.state_dict()

    whole = copy.deepcopy(first).double()  # the reference, in the larger precision
    sgd = torch.optim.SGD(whole.parameters(), 0.1, 0.9)
    for _ in range(3):
        sgd.zero_grad()
        loss(whole(images.double()), labels).backward()
        sgd.step()
    for state in with_engines(len(shares), train):
        for name, expected in whole.state_dict().items():
            torch.testing.assert_close(
                state[name].double(), expected.double(), rtol=2e-4, atol=2e-5, msg=name
            )


def test_a_layer_alone_agrees_with_float64_far_from_zero() -> None:
    """Sums of squares lose the variance of values around 1000, unless they are float64."""
    images = torch.randn(64, 3, 4, 4, dtype=torch.float64) * 0.5 + 1000
    theirs, model = nn.BatchNorm2d(3).double(), nn.Sequential(nn.BatchNorm2d(3))
    synchronised(model, lambda data: data)
    wide, narrow = images.clone().requires_grad_(), images.float().requires_grad_()
    slope = torch.randn(64, 3, 4, 4)
    (theirs(wide) * slope).sum().backward()
    (model(narrow) * slope).sum().backward()
    assert narrow.grad is not None
    torch.testing.assert_close(narrow.grad.double(), wide.grad, rtol=2e-3, atol=2e-3)


def test_it_evaluates_like_the_layer_whose_place_it_takes() -> None:
    model = network()
    images, _ = batch(20)
    model(images)
    other = copy.deepcopy(model)
    layers = synchronised(other, lambda data: data)
    assert len(layers) == 3
    assert list(other.state_dict()) == list(model.state_dict())
    torch.testing.assert_close(other.eval()(images), model.eval()(images))


@pytest.mark.parametrize("momentum", [None, 0.0, 0.1, 1.0])
def test_running_statistics_move_as_those_of_the_layer_do(momentum: float | None) -> None:
    theirs = nn.BatchNorm1d(3, momentum=momentum)
    model = nn.Sequential(copy.deepcopy(theirs))
    synchronised(model, lambda data: data)
    for seed in range(3):
        values = torch.randn(16, 3, generator=torch.Generator().manual_seed(seed)) * 2 + 1
        theirs(values)
        model(values)
    for name, expected in theirs.state_dict().items():
        torch.testing.assert_close(model.state_dict()[f"0.{name}"], expected)


def test_a_layer_without_running_statistics_evaluates_by_its_own_samples_alone() -> None:
    """Ranks evaluate in batches of their own, so they cannot wait for each other in between."""
    theirs = nn.BatchNorm1d(3, track_running_stats=False)
    model, sent = nn.Sequential(copy.deepcopy(theirs)), []
    synchronised(model, lambda data: sent.append(len(data)) or data)
    values = torch.randn(16, 3) * 2 + 1
    torch.testing.assert_close(model.eval()(values), theirs.eval()(values))
    assert sent == []


def test_statistics_that_are_not_synchronised_are_averaged_by_samples() -> None:
    images, _ = batch(9)
    one, other = network(), network()
    models = copy.deepcopy([one, other])

    def work(engine) -> dict[str, torch.Tensor]:
        model = models[engine.rank]
        own = (images[:3], images[3:])[engine.rank]
        model(own)
        share_statistics(model, len(own) / 9, engine.all_reduce)
        return model.state_dict()

    one(images[:3])
    other(images[3:])
    for state in with_engines(2, work):
        for name, value in state.items():
            parts = one.state_dict()[name] / 3 + other.state_dict()[name] * 2 / 3
            torch.testing.assert_close(value.double(), parts.double(), rtol=1e-5, atol=1e-6)


def test_parts_of_a_step_share_their_statistics_too() -> None:
    """Both ranks run as many parts, even one that has fewer samples than parts."""
    images, labels = batch(5)
    models = [network(), network()]

    def train(engine) -> float:
        model = models[engine.rank]
        sgd = torch.optim.SGD(model.parameters(), 0.1)
        loss = nn.CrossEntropyLoss()
        executor = DataParallel(
            model, loss, sgd, engine, "each", accumulate=2, sync_batch_norm=True
        )
        own = (slice(0, 4), slice(4, 5))[engine.rank]
        executor.step(images[own], labels[own], 5)
        return float(np.sum([p.detach().double().sum() for p in model.parameters()]))

    one, other = with_engines(2, train)
    assert one == other
