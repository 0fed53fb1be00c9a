"""Our compiled kernels against float64, called as on a phone; tests/arm64 does so on arm64."""

import subprocess
import sys
from pathlib import Path

import depthwise_reference as reference
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fleetctl.provision import native
from trainer.kernels import LIBRARY, KernelError, Kernels, Shape, load

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("native") / LIBRARY
    target = native.TARGETS["linux-x86_64"]
    path.write_bytes(native.compile_library(PROJECT, native.KERNEL_LIBRARY, target))
    return path


@pytest.fixture(scope="module")
def kernels(path) -> Kernels:
    return load(path)


def sizes(largest: int) -> st.SearchStrategy[int]:
    return st.integers(1, 9) | st.integers(1, largest)


@settings(max_examples=120, deadline=None)
@given(
    shape=st.builds(
        Shape,
        images=st.integers(1, 3),
        channels=st.integers(1, 5),
        height=sizes(70),
        width=sizes(70),
        kernel=st.sampled_from([3, 5, 3, 5, 1, 2, 7]),
        stride=st.sampled_from([1, 2, 1, 2, 3]),
        pad_y=st.integers(0, 4),
        pad_x=st.integers(0, 4),
    ),
    threads=st.sampled_from([1, 3]),
    seed=st.integers(0, 99),
)
def test_any_shape_equals_float64_by_every_variant(kernels, shape, threads, seed) -> None:
    assume(min(shape.out_height, shape.out_width) >= 1)
    for variant in kernels.variants:
        reference.check(kernels, shape, variant, threads, seed)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("width", [127, 128, 129, 255, 257, 600])
def test_long_rows_are_done_in_blocks(kernels, width, stride) -> None:
    for variant in kernels.variants:
        reference.check(kernels, Shape(1, 2, 40, width, 3, stride, 1, 1), variant, 1)
        reference.check(kernels, Shape(1, 1, 9, width, 5, stride, 2, 2), variant, 1)


def test_nothing_is_read_nor_written_behind_the_arrays(path) -> None:
    program = [sys.executable, reference.__file__, path, "60", "edge"]
    done = subprocess.run(
        program, env={"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout[:6]) == (0, "equal:"), done.stderr


def test_many_images_lose_no_accuracy(kernels) -> None:
    """Float32 sums of 200,000 products would be wrong in the fifth digit."""
    reference.check(kernels, Shape(64, 1, 56, 56, 3, 1, 1, 1), kernels.variants[-1], 1)


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        (Shape(1, 1, 2, 2, 5), "larger than the padded plane"),
        (Shape(0, 1, 2, 2, 1), "must be positive"),
        (Shape(1, 1, 2, 2, 1, pad_x=-1), "must be positive"),
    ],
)
def test_a_shape_without_result_is_refused(kernels, shape, complaint) -> None:
    with pytest.raises(KernelError, match=complaint):
        kernels.depthwise("forward", shape, 0, 0, 0)


def test_a_library_that_is_missing_or_something_else_is_named(tmp_path) -> None:
    with pytest.raises(KernelError, match=r"nowhere.so is missing; it comes with a release"):
        load(tmp_path / "nowhere.so")
    (tmp_path / "wrong.so").write_text("no library")
    with pytest.raises(KernelError, match=r"cannot be loaded: .*wrong.so: file too short"):
        load(tmp_path / "wrong.so")
