"""What holds for every source of a data set: what is written, and when nothing is."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from data_formats import (
    RANDOM,
    npz,
    pixels,
    refused,
    write_images,
)
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.errors import FleetError
from fleetctl.provision import data, shards
from fleetctl.provision.shards import Moments
from fleetctl.provision.sources import Options


def test_what_cannot_be_told_is_asked_for(tmp_path) -> None:
    home = tmp_path / "data"
    (tmp_path / "empty").mkdir()
    assert "cannot tell what this is; expected cifar10 or" in refused(home, tmp_path / "empty")
    assert "no such file or folder" in refused(home, tmp_path / "nowhere")
    assert "has digits; say --from PATH" in refused(home, None, kind="mnist")
    assert "not from" in refused(home, tmp_path / "empty", kind="digits")
    assert "npz is read from a file" in refused(home, tmp_path / "empty", kind="npz")
    (tmp_path / "x.bin").write_bytes(b"?")
    assert "mnist is read from a folder" in refused(home, tmp_path / "x.bin", kind="mnist")
    assert "data_batch_1.bin is missing" in refused(home, tmp_path / "empty", kind="cifar10")
    path = npz(tmp_path / "a.npz", x=pixels(40, 4, 4), y=np.arange(40) % 2)
    assert "are for image folders, not for npz" in refused(home, path, size=4)
    with pytest.raises(FleetError, match="no name for a data set"):
        data.add(data.Wish("../up"), home)


def test_the_same_again_changes_nothing_and_other_files_or_choices_do(tmp_path) -> None:
    source, home = tmp_path / "i", tmp_path / "data"
    write_images(source, {"a": [pixels(6, 6, 3)] * 9, "b": [pixels(6, 6, 3)] * 9})

    def changed(size: int) -> bool:
        return data.add(data.Wish("some", source, options=Options(size)), home)[1]

    assert changed(6)
    assert not changed(6)
    assert changed(5)
    os.utime(source / "a/000.png")
    assert changed(5)
    assert not changed(5)


def test_a_disk_that_is_too_small_is_said_before_anything_is_written(tmp_path, monkeypatch) -> None:
    path = npz(tmp_path / "a.npz", x=pixels(400, 4, 4), y=np.arange(400) % 2)

    class Usage:
        free = 7000

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage)
    with pytest.raises(FleetError, match="No space left on device for it: 9,600 bytes"):
        data.add(data.Wish("some", path), tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_two_at_once_the_second_is_told(tmp_path) -> None:
    (tmp_path / "data").mkdir()
    with data._alone(tmp_path / "data"), pytest.raises(data.DataHeld, match="another `fleetctl"):
        data.add(data.Wish("digits"), tmp_path / "data")
    data.add(data.Wish("digits"), tmp_path / "data")


def test_what_a_killed_one_left_goes_with_the_next(tmp_path) -> None:
    (tmp_path / ".digits.abcd").mkdir()
    data.add(data.Wish("digits"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["digits"]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.sampled_from(["uint8", "float32"]))
def test_moments_of_parts_are_those_of_the_whole(lengths, dtype) -> None:
    images = RANDOM.integers(0, 256, (max(1, sum(lengths)), 2, 3, 3)).astype(dtype)
    moments, start = Moments(), 0
    for length in [*lengths, len(images)]:
        moments.add(images[start : start + length])
        start += length
    plain = images / 255 if dtype == "uint8" else images.astype(np.float64)
    mean, std = moments.of_channels()
    np.testing.assert_allclose(mean, plain.mean(axis=(0, 2, 3)), rtol=1e-9)
    np.testing.assert_allclose(std, plain.std(axis=(0, 2, 3)), rtol=1e-9)


@pytest.mark.parametrize(
    ("samples", "sample_bytes"), [(1, 10), (60_000, 792), (1_200_000, 150_536), (10, 10**8)]
)
def test_shards_are_neither_tiny_nor_huge(samples, sample_bytes) -> None:
    each = shards.samples_per_shard(samples, sample_bytes)
    assert each >= 1
    assert each == 1 or 100 * 1024 <= each * sample_bytes <= 16 * 2**20


def test_a_large_set_is_written_shard_by_shard(tmp_path) -> None:
    import tracemalloc

    images = pixels(3000, 3, 64, 64)  # 37 MB
    np.savez(tmp_path / "a.npz", x=images, y=np.arange(3000) % 4)
    size = images.nbytes
    del images
    tracemalloc.start()
    data.add(data.Wish("some", tmp_path / "a.npz"), tmp_path / "data")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size / 2
