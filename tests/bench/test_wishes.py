"""What options mean: sizes, lists, shapes, and the launches that scaling makes."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.bench.training import ScalingWish
from fleetctl.cli.bench_options import IMAGE, Many, Size, known_models
from fleetctl.rack import InputError
from trainer.formats import Exchange, Input, ModelSpec


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
