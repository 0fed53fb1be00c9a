"""The data-parallel step: buckets, and gradients as views of one buffer."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from worlds import with_engines

from trainer.exchange.engine import Engine
from trainer.formats import OPTIMIZERS, OptimizerSpec
from trainer.optimizers import build_optimizer
from trainer.step import DataParallel, LabelError, _buckets


@pytest.mark.parametrize(
    ("bucket_bytes", "bucket_of", "ends"),
    [
        ("all", [0, 0, 0], [38]),
        ("each", [0, 1, 2], [10, 15, 38]),
        (50, [0, 0, 1], [15, 38]),
        (4, [0, 1, 2], [10, 15, 38]),
    ],
)
def test_buckets_cover_the_buffer_and_the_last_takes_the_rest(
    bucket_bytes, bucket_of, ends
) -> None:
    found, slices = _buckets([10, 5, 20], bucket_bytes, buffer_length=38)
    assert found == bucket_of
    assert [part.stop for part in slices] == ends
    assert [part.start for part in slices] == [0, *ends[:-1]]


def test_the_first_bucket_is_small_so_that_the_link_is_not_idle_for_long() -> None:
    mebi = 1 << 18  # numbers in a MiB
    found, slices = _buckets([mebi, mebi, 2 * mebi, mebi], 3 << 20, buffer_length=5 * mebi)
    assert found == [0, 1, 1, 2]
    assert [part.stop for part in slices] == [mebi, 4 * mebi, 5 * mebi]


def test_a_step_alone_is_torch_s_own_step() -> None:
    torch.manual_seed(0)
    images, labels = torch.rand(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    ours, theirs = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    theirs.load_state_dict(ours.state_dict())
    loss = torch.nn.functional.cross_entropy
    our_sgd, their_sgd = (torch.optim.SGD(m.parameters(), 0.5, 0.9) for m in (ours, theirs))
    executor = DataParallel(ours, loss, our_sgd, None, "all")
    for _ in range(3):
        result = executor.step(images, labels, len(labels))
        their_sgd.zero_grad()
        expected = loss(theirs(images), labels)
        expected.backward()
        their_sgd.step()
        assert result.loss == pytest.approx(expected.item(), rel=1e-6)
    torch.testing.assert_close(ours.weight, theirs.weight)


SHARES = [(3, 3), (5, 1), (6, 0), (2, 4)]


@pytest.mark.parametrize("codec", ["none", "half"])
def test_shares_that_change_from_step_to_step_equal_one_process(codec: str) -> None:
    torch.manual_seed(0)
    images, labels = torch.rand(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    models = [torch.nn.Linear(4, 3) for _ in range(3)]
    for model in models[1:]:
        model.load_state_dict(models[0].state_dict())

    def executor(model: torch.nn.Module, engine: Engine | None, numbers: int) -> DataParallel:
        sgd = torch.optim.SGD(model.parameters(), 0.5, 0.9)
        loss = torch.nn.functional.cross_entropy
        return DataParallel(model, loss, sgd, engine, "each", numbers=numbers)

    def rank(engine: Engine) -> list[tuple[tuple[float, ...], ...]]:
        parallel = executor(models[1 + engine.rank], engine, 2)
        heard = []
        for first, _ in SHARES:
            own = slice(0, first) if engine.rank == 0 else slice(first, 6)
            told = (engine.rank + 0.25, float(first))
            result = parallel.step(images[own], labels[own], 6, tell=told, parts=2)
            heard.append(result.told)
        return heard

    one = executor(models[0], None, 0)
    for _ in SHARES:
        assert one.step(images, labels, 6).told == ()
    expected = [((0.25, first), (1.25, first)) for first, _ in SHARES]
    assert with_engines(2, rank, codec) == [expected, expected]
    tolerance = {"none": 1e-5, "half": 1e-2}[codec]
    for model in models[1:]:
        torch.testing.assert_close(model.weight, models[0].weight, rtol=tolerance, atol=tolerance)


def test_a_step_whose_loss_is_not_finite_changes_nothing() -> None:
    model = torch.nn.Linear(4, 3)
    before = model.weight.clone()
    executor = DataParallel(
        model, torch.nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), 1), None, 4
    )
    result = executor.step(torch.full((2, 4), float("nan")), torch.tensor([0, 1]), 2)
    assert result.bad == {0: "loss"}
    torch.testing.assert_close(model.weight, before)


def test_other_types_than_float32_are_refused_by_the_parameter_s_name() -> None:
    model = torch.nn.Linear(2, 2).double()
    with pytest.raises(TypeError, match=r"parameter weight is torch.float64"):
        DataParallel(
            model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters(), 1), None, "all"
        )


@pytest.mark.parametrize("parts", [2, 3, 6, 9])
def test_a_step_in_parts_equals_the_step_at_once(parts: int) -> None:
    torch.manual_seed(0)
    images, labels = torch.rand(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    models = [torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)]
    models[1].load_state_dict(models[0].state_dict())
    losses = []
    for model, accumulate in zip(models, (1, parts), strict=True):
        sgd = torch.optim.SGD(model.parameters(), 0.5, 0.9)
        executor = DataParallel(
            model, torch.nn.functional.cross_entropy, sgd, None, "each", accumulate=accumulate
        )
        losses.append([executor.step(images, labels, 6).loss for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    torch.testing.assert_close(models[0].weight, models[1].weight)


@pytest.mark.parametrize("bucket_bytes", ["all", "each"])
def test_a_gradient_that_is_not_finite_is_told_by_its_rank(bucket_bytes) -> None:
    """The square root's slope is infinite at 0, though the loss is not."""

    def work(engine) -> tuple[dict[int, str], bool]:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        images, labels = torch.rand(6, 4) * (engine.rank != 1), torch.tensor([0, 1, 2, 0, 1, 2])
        sgd = torch.optim.SGD(model.parameters(), 0.5)
        before = model.weight.detach().clone()

        def loss(output: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            return (output - model.bias).abs().sum().sqrt()

        result = DataParallel(model, loss, sgd, engine, bucket_bytes).step(images, labels, 18)
        return dict(result.bad), torch.equal(before, model.weight)

    assert with_engines(3, work) == [({1: "gradient"}, True)] * 3


def test_a_label_without_a_score_is_named() -> None:
    model = torch.nn.Linear(4, 3)
    sgd = torch.optim.SGD(model.parameters(), 0.5)
    executor = DataParallel(model, torch.nn.functional.cross_entropy, sgd, None, "all")
    with pytest.raises(LabelError, match="label 7 in the data set"):
        executor.step(torch.rand(2, 4), torch.tensor([0, 7]), 2)


def test_one_rank_that_is_asked_to_finish_tells_all_of_them() -> None:
    def work(engine) -> list[bool]:
        model = torch.nn.Linear(4, 3)
        executor = DataParallel(
            model, torch.nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), 0.1),
            engine, "each",
        )  # fmt: skip
        images, labels = torch.rand(2, 4), torch.tensor([0, 1])
        asked = [False, engine.rank == 1]
        steps = [executor.step(images, labels, 6, finish=finish) for finish in asked]
        assert not any(step.bad for step in steps)
        return [step.finish for step in steps]

    assert with_engines(3, work) == [[False, True]] * 3


@pytest.mark.parametrize("bucket_bytes", ["all", "each", 20])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimiser_that_gets_the_sums_one_by_one_does_as_with_all_at_once(
    name: str, bucket_bytes
) -> None:
    torch.manual_seed(0)
    images, labels = torch.rand(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    start = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))

    def trained(engine: Engine | None) -> list[torch.Tensor]:
        model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
        model.load_state_dict(start.state_dict())
        optimizer = build_optimizer(OptimizerSpec(name, {"lr": 0.01}), model.parameters())
        loss = torch.nn.functional.cross_entropy
        parallel = DataParallel(model, loss, optimizer, engine, bucket_bytes)
        own = slice(0, 6) if engine is None else slice(3 * engine.rank, 3 * engine.rank + 3)
        for _ in range(4):
            parallel.step(images[own], labels[own], 6)
        return [p.detach() for p in model.parameters()]

    alone = trained(None)
    for rank in with_engines(2, trained):
        for ours, expected in zip(rank, alone, strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


def test_a_sum_is_used_while_the_next_is_under_way() -> None:
    model = torch.nn.Linear(4, 3)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    seen: list[list[str]] = []

    class Slow:
        """Each sum comes when it is waited for."""

        rank, size, lossy = 0, 1, False

        def post(self, _data: np.ndarray) -> Any:
            return SimpleNamespace(finished=SimpleNamespace(is_set=lambda: False), seconds=0.0)

        def wait(self, _bucket: Any) -> None:
            seen.append(
                [n for n, p in model.named_parameters() if not torch.equal(p, before[n])]
            )  # fmt: skip

    sgd = torch.optim.SGD(model.parameters(), 0.5)
    engine: Any = Slow()
    executor = DataParallel(model, torch.nn.functional.cross_entropy, sgd, engine, "each")
    executor.step(torch.rand(6, 4), torch.tensor([0, 1, 2, 0, 1, 2]), 6)
    assert seen == [[], ["bias"]]
    assert not torch.equal(model.weight, before["weight"])


def test_a_sum_that_overflows_is_told_of_and_not_used() -> None:
    def work(engine: Engine) -> tuple[dict[int, str], bool, float]:
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        sgd = torch.optim.SGD(model.parameters(), 0.5)

        def loss(output: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            return output.sum() * 3e38

        images, labels = torch.full((1, 1), 2.0), torch.tensor([0])
        step = DataParallel(model, loss, sgd, engine, "all").step(images, labels, 2)
        return dict(step.bad), step.overflow, model.weight.item()

    assert with_engines(2, work) == [({}, True, 0.0)] * 2
