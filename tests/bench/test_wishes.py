"""What options mean: sizes, lists, shapes, and the launches that scaling makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from made import WHERE

from fleetctl.bench.compute import ComputeWish, measure_here
from fleetctl.bench.session import BenchError
from fleetctl.bench.training import ScalingWish
from fleetctl.cli import bench_compute
from fleetctl.cli.bench_options import IMAGE, Many, Size, known_models
from fleetctl.cli.main import cli
from fleetctl.rack import InputError
from trainer.formats import Exchange, Input, MemorySearch, ModelSpec


@pytest.mark.parametrize(
    ("text", "value"),
    [("4k", 4000), ("37.5M", 37_500_000), ("1Gi", 2**30), ("12", 12), ("64KiB", 65536)],
)
def test_sizes(text: str, value: int) -> None:
    assert Size().convert(text, None, None) == value


@pytest.mark.parametrize("text", ["", "0", "-1", "4 kilo", "1e6", "k"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no size"):
        Size().convert(text, None, None)


def test_lists_name_each_once() -> None:
    assert Many(click.INT).convert("4, 2,4,", None, None) == (4, 2)
    with pytest.raises(click.BadParameter, match="empty"):
        Many(click.INT).convert(" , ", None, None)
    with pytest.raises(click.BadParameter):
        Many(click.INT).convert("4,x", None, None)


def test_shapes_of_images() -> None:
    assert IMAGE.convert("3x224x224", None, None) == (3, 224, 224)
    for text in ("224x224", "3x0x8", "3xax8", ""):
        with pytest.raises(click.BadParameter, match="no shape"):
            IMAGE.convert(text, None, None)


def test_models_are_known_by_name() -> None:
    assert known_models(["digits-cnn"]) == (ModelSpec("digits-cnn"),)
    for name in ("script", "nosuch"):
        with pytest.raises(InputError, match="unknown; known: "):
            known_models([name])
    with pytest.raises(InputError, match="at least 63x63"):
        known_models(["digits-cnn", "alexnet"], Input((3, 32, 32), 10))


def compute_wish(*batches: int, memory: MemorySearch | None = None) -> ComputeWish:
    model, shape = ModelSpec("digits-cnn"), Input((1, 8, 8), 10)
    return ComputeWish((model,), shape, batches, (1, 2), 60.0, memory=memory)


def test_compute_has_the_time_that_its_cases_take() -> None:
    """Two numbers of threads; a minute a case."""
    few, many = compute_wish(8), compute_wish(*range(1, 41))
    assert many.limit_seconds - few.limit_seconds >= 2 * 39 * 60
    assert few.limit_seconds >= 2 * 2 * 60
    assert compute_wish(8, memory=MemorySearch(64)).limit_seconds > few.limit_seconds


@pytest.mark.parametrize(("typed", "given_seconds"), [([], None), (["--limit", "50"], 50.0)])
def test_a_limit_that_was_typed_counts(
    typed: list[str],
    given_seconds: float | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    seen: list[float] = []

    def on_phones(_app: Any, _nodes: Any, _kind: str, _work: Any, limit_seconds: float) -> None:
        seen.append(limit_seconds)

    monkeypatch.setattr(bench_compute, "on_phones", on_phones)
    rack = tmp_path / "rack.yml"
    rack.write_text(
        "rack: r\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-25]\n"
    )
    monkeypatch.setenv("PHONERACK_RACK", str(rack))
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path))
    words = ["--models", "digits-cnn", "--image", "1x8x8", "--classes", "10", "--batches", "8"]
    asked = ["bench", "compute", *words, "--threads", "1,2", *typed]
    CliRunner().invoke(cli, asked, catch_exceptions=False)
    assert seen == [given_seconds or compute_wish(8).limit_seconds]


def test_this_machine_has_a_limit_too(tmp_path: Path) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o700)
    with pytest.raises(BenchError, match=r"not done after 0 s; --limit allows more"):
        measure_here(compute_wish(8), str(slow), WHERE, tmp_path, 0.1)


@given(
    st.sets(st.integers(1, 140), min_size=1, max_size=6),
    st.integers(0, 300),
    st.integers(0, 64),
)
def test_scaling_deals_every_sample_and_leaves_nobody_without(
    counts: set[int], global_batch: int, phone_batch: int
) -> None:
    wish = ScalingWish(
        (ModelSpec("digits-cnn"),),
        Input((1, 8, 8), 10),
        tuple(sorted(counts)),
        global_batch,
        phone_batch,
        5,
        1,
        Exchange(),
    )
    found = wish.launches()
    for _, mode, samples in found:
        assert len(samples) in counts
        assert min(samples) >= 1
        if mode == "global":
            assert sum(samples) == global_batch
        else:
            assert set(samples) == {phone_batch}
    modes = [(mode, len(samples)) for _, mode, samples in found]
    assert len(set(modes)) == len(modes)
    assert sum(mode == "phone" for mode, _ in modes) == (len(counts) if phone_batch else 0)
    assert sum(mode == "global" for mode, _ in modes) == sum(c <= global_batch for c in counts)
