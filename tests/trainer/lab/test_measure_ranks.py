"""The measuring programs of `fleetctl bench` on real ranks, with torch."""

from __future__ import annotations

from pathlib import Path

import mpi
import pytest

from trainer.formats import (
    Collectives,
    CollectivesSpec,
    ComputeCase,
    Computed,
    ComputeSpec,
    Document,
    Input,
    MemorySearch,
    Method,
    ModelSpec,
    OptimizerSpec,
    Trained,
    TrainingSpec,
    measured_name,
)

DIGITS = ModelSpec("digits-cnn")
SHAPE = Input((1, 8, 8), 10)
SGD = OptimizerSpec("sgd", {"lr": 0.01, "momentum": 0.9})


def measure[Answer: Document](
    what: str, spec: Document, ranks: int, folder: Path, answer: type[Answer]
) -> list[Answer]:
    spec.write(folder / "measure.json")
    process = mpi.mpirun(ranks, "-m", "trainer.measure", what, "measure.json", folder=folder)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    return [answer.read(folder / measured_name(rank)) for rank in range(ranks)]


@pytest.mark.parametrize(
    "method",
    ["mpi", *(pytest.param(each, marks=pytest.mark.soak) for each in ("hierarchical", "gloo"))],
)
def test_every_method_sums_and_tells_its_times(method: Method, tmp_path: Path) -> None:
    spec = CollectivesSpec(
        ("a", "b", "c"),
        method,
        (4, 10_000),
        2,
        (DIGITS, ModelSpec("script")),
        with_patterns=method == "mpi",
        switches=("x", "x", "y"),
    )
    first, second, _ = measure("collectives", spec, 3, tmp_path, Collectives)
    assert first == second, "the slowest rank counts, for all"
    plain = [time for time in first.times if time.model is None and time.operation == "all-reduce"]
    assert [time.bytes for time in plain] == [4, 10_000]
    assert all(len(time.seconds) == 2 and min(time.seconds) > 0 for time in first.times)
    models = {time.way: time for time in first.times if time.model == "digits-cnn"}
    assert set(models) == {"packed", "chunk-wise"}
    assert {(time.tensors, time.bytes > 200_000) for time in models.values()} == {(8, True)}
    assert len(first.missing) == 1, "a model without tensors of its own is told"
    patterns = {(time.operation, time.method) for time in first.times} - {("all-reduce", method)}
    if method == "mpi":
        assert len(patterns) == 4
    else:
        assert patterns == set()


@pytest.mark.soak
def test_steps_are_timed_on_every_rank_and_all_stop_together(tmp_path: Path) -> None:
    spec = TrainingSpec(("a", "b"), DIGITS, SHAPE, (5, 0), SGD, iterations=3)
    ranks = measure("training", spec, 2, tmp_path, Trained)
    assert [(rank.phone, rank.samples, len(rank.steps)) for rank in ranks] == [
        ("a", 5, 3),
        ("b", 0, 3),
    ]
    assert ranks[0].steps[0].compute_seconds > 0
    timed = TrainingSpec(("a", "b"), DIGITS, SHAPE, (1, 1), SGD, iterations=1, seconds=2.0)
    first, second = measure("training", timed, 2, tmp_path, Trained)
    assert len(first.steps) == len(second.steps) > 1


@pytest.mark.soak
def test_a_step_alone_is_timed_and_the_largest_batch_stays_below_the_limit(tmp_path: Path) -> None:
    spec = ComputeSpec(
        ("here",),
        (ComputeCase(DIGITS, SHAPE, 4, 1), ComputeCase(ModelSpec("script"), SHAPE, 4, 1)),
        SGD,
        0.2,
        memory=MemorySearch(200_000, limit_bytes=300_000_000),
    )
    (found,) = measure("compute", spec, 1, tmp_path, Computed)
    (time,) = found.times
    parts = time.forward_seconds, time.backward_seconds, time.optimizer_seconds
    assert min(parts) > 0
    assert time.step_seconds > 0
    (largest,) = found.largest
    assert 0 < largest.batch < 200_000
    assert 0 < largest.peak_bytes <= 300_000_000
    assert len(found.missing) == 1, "the model that cannot be built is told"


def test_a_device_that_is_not_there_is_named(tmp_path: Path) -> None:
    spec = ComputeSpec(("here",), (ComputeCase(DIGITS, SHAPE, 1, 1),), SGD, 0.1, device="cuda")
    spec.write(tmp_path / "measure.json")
    process = mpi.mpirun(1, "-m", "trainer.measure", "compute", "measure.json", folder=tmp_path)
    output, _ = process.communicate()
    assert process.returncode != 0
    assert "device 'cuda'" in output
