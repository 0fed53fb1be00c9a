"""Data sets in published formats: read to the byte, and refused with file and reason."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_formats import (
    NAMES10,
    RANDOM,
    added,
    as_set,
    cifar10_files,
    cifar100,
    idx,
    npz,
    paired,
    pixels,
    refused,
    write_archive,
    write_files,
    write_mnist,
)
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.provision.sources import cifar as cifar_source
from fleetctl.provision.sources import idx as idx_source
from fleetctl.provision.sources import model
from trainer.formats import DataManifest

# --- CIFAR ---


@pytest.fixture(scope="module")
def cifar() -> tuple[np.ndarray, np.ndarray]:
    return pixels(120, 3, 32, 32), np.arange(120) % 10


@pytest.mark.parametrize("how", ["folder", "archive", "unpacked archive"])
def test_cifar10_is_read_from_folder_and_archive(tmp_path, cifar, how) -> None:
    images, labels = cifar
    files = cifar10_files(images, labels)
    path = tmp_path / "source"
    if how == "folder":
        write_files(path, files)
    elif how == "archive":
        path = write_archive(tmp_path / "cifar-10-binary.tar.gz", files, "cifar-10-batches-bin")
    else:
        write_files(path / "cifar-10-batches-bin", files)
    loaded = added(tmp_path / "data", path)
    assert as_set(loaded.train) == paired(images[:100], labels[:100])
    np.testing.assert_array_equal(np.rint(loaded.test.images[:] * 255), images[100:])
    assert loaded.test.labels.tolist() == labels[100:].tolist()
    manifest = DataManifest.read(tmp_path / "data/some/manifest.json")
    assert (manifest.dtype, manifest.shape, manifest.classes) == ("uint8", (3, 32, 32), 10)
    assert list(manifest.class_names) == NAMES10


def test_cifar100_takes_the_fine_label(tmp_path) -> None:
    images, labels = pixels(200, 3, 32, 32), np.arange(200) % 100
    path = write_files(
        tmp_path / "source",
        {"train.bin": cifar100(images, labels), "test.bin": cifar100(images[:7], labels[:7])},
    )
    loaded = added(tmp_path / "data", path)
    assert as_set(loaded.train) == paired(images, labels)
    assert loaded.classes == 100


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: f.pop("data_batch_3.bin"), "data_batch_3.bin is missing; cifar10 has data_"),
        (
            lambda f: f.update({"test_batch.bin": f["test_batch.bin"][:-1]}),
            "test_batch.bin has 614",
        ),
        (lambda f: f.update({"data_batch_1.bin": b""}), "data_batch_1.bin has 0 bytes"),
        (
            lambda f: f.update({"data_batch_2.bin": b"\x0a" + f["data_batch_2.bin"][1:]}),
            r"data_batch_2.bin: record 0 has label 10, which is not in 0..9",
        ),
    ],
)
def test_a_damaged_cifar_names_file_and_what_would_be_right(tmp_path, cifar, damage, said) -> None:
    files = cifar10_files(*cifar)
    damage(files)
    assert said in refused(tmp_path / "data", write_files(tmp_path / "source", files))


@given(st.integers(0, 4 * 3073), st.sampled_from(list(cifar_source.LAYOUTS.values())))
def test_a_cifar_file_is_whole_records_or_refused(size, layout) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / layout.test
        path.write_bytes(bytes(size))
        if size and size % layout.record_bytes == 0:
            records = cifar_source._records(path, Path(folder), layout)
            assert records.shape == (size // layout.record_bytes, layout.label_bytes + 3072)
        else:
            with pytest.raises(model.SourceError, match=f"{layout.test} has {size} bytes"):
                cifar_source._records(path, Path(folder), layout)


def test_an_archive_that_is_cut_or_holds_a_file_twice_is_refused(tmp_path, cifar) -> None:
    files = cifar10_files(*cifar)
    path = write_archive(tmp_path / "c.tar.gz", files, "a")
    path.write_bytes(path.read_bytes()[:-5000])
    assert "c.tar.gz: damaged or truncated archive" in refused(tmp_path / "data", path)
    import tarfile

    with tarfile.open(tmp_path / "d.tar", "w") as archive:
        folder = write_files(tmp_path / "f", files)
        archive.add(folder, "a")
        archive.add(folder / "test_batch.bin", "b/test_batch.bin")
    assert "test_batch.bin is in the archive twice" in refused(
        tmp_path / "data", tmp_path / "d.tar"
    )


# --- idx ---


@pytest.mark.parametrize(("packed", "mark"), [(True, "-"), (False, "-"), (False, ".")])
def test_mnist_is_read_plain_and_packed(tmp_path, packed, mark) -> None:
    images, labels = pixels(50, 28, 20), np.arange(50) % 10
    path = write_mnist(
        tmp_path / "m", (images[:40], labels[:40]), (images[40:], labels[40:]), packed=packed,
        mark=mark,
    )  # fmt: skip
    loaded = added(tmp_path / "data", path)
    assert as_set(loaded.train) == paired(images[:40], labels[:40])
    assert as_set(loaded.test) == paired(images[40:], labels[40:])
    assert loaded.train.images.shape == (40, 1, 28, 20)


@given(st.binary(max_size=60), st.booleans())
def test_whatever_the_bytes_an_idx_file_is_read_whole_or_refused(content, packed) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("x.gz" if packed else "x")
        path.write_bytes(gzip.compress(content) if packed else content)
        try:
            array = idx_source._array(path, 1, Path(folder))
        except model.DataSetError as error:
            assert str(path) in str(error)  # noqa: PT017
        else:
            assert idx(np.asarray(array)) == content


@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
    cut=st.integers(1, 30),
    packed=st.booleans(),
)
def test_an_idx_file_that_is_cut_anywhere_or_too_long_is_refused(shape, cut, packed) -> None:
    whole = idx(pixels(*shape))
    for content in (whole[:-cut], whole + b"x" * cut):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / ("x.gz" if packed else "x")
            path.write_bytes(gzip.compress(content) if packed else content)
            with pytest.raises(model.SourceError, match="x"):
                idx_source._array(path, 3, Path(folder))


def test_idx_files_that_do_not_fit_are_named(tmp_path) -> None:
    home, images, labels = tmp_path / "data", pixels(20, 4, 4), np.arange(20) % 4
    good = (images, labels)

    def made(name: str, train: Any, test: Any) -> Path:
        return write_mnist(tmp_path / name, train, test, packed=False)

    said = refused(home, made("a", (images, labels[:-1]), good))
    assert "train-images-idx3-ubyte has 20 images and" in said
    assert "19 labels" in said
    assert "training images are (1, 4, 4), test images (1, 5, 4)" in refused(
        home, made("b", good, (pixels(20, 5, 4), labels))
    )
    path = made("c", good, good)
    (path / "t10k-labels-idx1-ubyte").unlink()
    assert "t10k-labels-idx1-ubyte[.gz] is missing" in refused(home, path)
    path = made("d", good, good)
    shutil.copy(path / "train-images-idx3-ubyte", path / "train-labels-idx1-ubyte")
    said = refused(home, path)
    assert "begins with 00000803, expected 00000801" in said
    path = made("e", good, good)
    (path / "train-images-idx3-ubyte.gz").write_bytes(b"")
    assert "are both there; leave one of them" in refused(home, path)
    path = write_mnist(tmp_path / "f", good, good)
    packed = path / "train-images-idx3-ubyte.gz"
    packed.write_bytes(packed.read_bytes()[:-9])
    assert "train-images-idx3-ubyte.gz: damaged or truncated" in refused(home, path)


# --- labels ---


@pytest.mark.parametrize(
    ("train", "test", "said"),
    [
        ([0, 0, 0, 0], [0], "fewer than 2 classes"),
        ([0, 1, 0, 200], [0], "sample 3 has label 200, but no training sample has label 2"),
        ([1, 2, 1, 2], [1], "no training sample has label 0"),
        ([0, 1, 0, 1], [2], "sample 0 has label 2, which is not in 0..1"),
    ],
)
def test_labels_that_make_no_sense_are_refused(tmp_path, train, test, said) -> None:
    path = write_mnist(
        tmp_path / "m",
        (pixels(len(train), 2, 2), np.array(train)),
        (pixels(len(test), 2, 2), np.array(test)),
    )
    assert said in refused(tmp_path / "data", path)


# --- arrays ---


@pytest.mark.parametrize("layout", ["hw", "hwc", "chw", "fortran"])
def test_arrays_are_read_in_every_layout(tmp_path, layout) -> None:
    images, labels = pixels(40, 3, 6, 5), np.arange(40) % 4
    shown = images
    if layout == "hw":
        images = images[:, :1]
        shown = images[:, 0]
    elif layout == "hwc":
        shown = images.transpose(0, 2, 3, 1)
    elif layout == "fortran":
        shown = np.asfortranarray(images)
    path = npz(tmp_path / "a.npz", x=shown, y=labels[:, None].astype(np.int16))
    loaded = added(tmp_path / "data", path)
    assert sorted(as_set(loaded.train) + as_set(loaded.test)) == paired(images, labels)
    assert (len(loaded.train), len(loaded.test)) == (32, 8)


def test_floats_stay_what_they_are_and_moments_are_those_of_the_training_samples(tmp_path) -> None:
    images = RANDOM.normal(3, 2, (60, 3, 5, 5))
    labels = np.arange(60) % 3
    path = npz(
        tmp_path / "f.npz",
        **{"x_train": images[:50], "y_train": labels[:50]},
        **{"x_test": images[50:], "y_test": labels[50:]},
    )
    loaded = added(tmp_path / "data", path)
    np.testing.assert_array_equal(loaded.test.images[:], images[50:].astype(np.float32))
    np.testing.assert_allclose(loaded.mean, images[:50].mean(axis=(0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(loaded.std, images[:50].std(axis=(0, 2, 3)), rtol=1e-6)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": pixels(9, 4, 4)}, "holds x; expected the arrays x_train"),
        ({"x": pixels(9, 4, 4), "y": np.arange(8) % 2}, "x has 9 samples, y 8"),
        ({"x": pixels(9, 4, 4), "y": np.ones(9) / 2}, "y has shape (9,) of float64"),
        ({"x": pixels(9, 16), "y": np.arange(9) % 2}, "x has shape (9, 16); expected (samples"),
        ({"x": pixels(9, 3, 8, 3), "y": np.arange(9) % 2}, "has shape (9, 3, 8, 3)"),
        ({"x": pixels(9, 4, 4) > 9, "y": np.arange(9) % 2}, "x holds bool; expected uint8"),
        ({"x": np.full((9, 4, 4), np.nan), "y": np.arange(9) % 2}, "a pixel that is not finite"),
        ({"x": np.full((9, 4, 4), 1e60), "y": np.arange(9) % 2}, "a pixel that is not finite"),
        ({"x": np.full((9, 4, 4), 256), "y": np.arange(9) % 2}, "has the value 256, which is not"),
        ({"x": pixels(9, 4, 4), "y": np.arange(9) % 2 - 1}, "has label -1; classes are counted"),
        ({"x": pixels(0, 4, 4), "y": np.arange(0)}, "x has no samples"),
        ({"x": pixels(2, 4, 4), "y": np.arange(2)}, "2 samples are too few"),
        ({"x": np.array([{}] * 9), "y": np.arange(9) % 2}, "x is no plain array"),
    ],
)
def test_arrays_that_are_no_images_are_refused(tmp_path, arrays, said) -> None:
    assert said in refused(tmp_path / "data", npz(tmp_path / "a.npz", **arrays))


def test_an_archive_of_arrays_that_is_cut_is_refused(tmp_path) -> None:
    path = npz(tmp_path / "a.npz", x=pixels(50, 9, 9), y=np.arange(50) % 2)
    path.write_bytes(path.read_bytes()[:-100])
    assert "a.npz: no .npz, or truncated" in refused(tmp_path / "data", path)
