"""Writers of published data formats, by their descriptions alone, and what reads them back."""

from __future__ import annotations

import gzip
import io
import shutil
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fleetctl.errors import FleetError
from fleetctl.provision import data
from fleetctl.provision.sources import Options
from trainer.data import load

RANDOM = np.random.default_rng(5)


def pixels(*shape: int) -> np.ndarray:
    return RANDOM.integers(0, 256, shape, np.uint8)


def added(home: Path, path: Path, **choices: Any) -> Any:
    """The data set as the trainer reads it."""
    options = Options(**{k: choices.pop(k) for k in ("size", "fit", "skip_broken") if k in choices})
    data.add(data.Wish("some", path, options=options, **choices), home)
    return load(home / "some")


def refused(home: Path, path: Path | None, **choices: Any) -> str:
    """What is said; the set that was there before is whole, and nothing else is left."""
    data.add(data.Wish("digits"), home)
    shutil.rmtree(home / "some", ignore_errors=True)
    (home / "digits").rename(home / "some")
    before = {p: p.read_bytes() for p in (home / "some").iterdir()}
    options = Options(**{k: choices.pop(k) for k in ("size", "fit", "skip_broken") if k in choices})
    with pytest.raises(FleetError) as caught:
        data.add(data.Wish("some", path, options=options, **choices), home)
    assert {p: p.read_bytes() for p in (home / "some").iterdir()} == before
    assert [p.name for p in home.iterdir()] == ["some"]
    return str(caught.value)


def as_set(split: Any) -> list[tuple[bytes, int]]:
    images = np.rint(split.images[:] * 255).astype(np.uint8)
    return sorted((i.tobytes(), int(n)) for i, n in zip(images, split.labels, strict=True))


def paired(images: np.ndarray, labels: np.ndarray) -> list[tuple[bytes, int]]:
    return sorted((i.tobytes(), int(n)) for i, n in zip(images, labels, strict=True))


def idx(array: np.ndarray) -> bytes:
    """yann.lecun.com/exdb/mnist: magic (0, 0, type, dimensions), sizes, data; big-endian."""
    sizes = b"".join(struct.pack(">i", size) for size in array.shape)
    return bytes([0, 0, 0x08, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def write_mnist(
    folder: Path, train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray],
    *, packed: bool = True, mark: str = "-",
) -> Path:  # fmt: skip
    """The four files, images (n, height, width) and labels (n,)."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, (images, labels) in (("train", train), ("t10k", test)):
        for what, array in (("images", images), ("labels", labels)):
            name = f"{prefix}-{what}{mark}idx{array.ndim}-ubyte"
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
            else:
                (folder / name).write_bytes(idx(array))
    return folder


def cifar10(images: np.ndarray, labels: np.ndarray) -> bytes:
    """cs.toronto.edu/~kriz/cifar.html, binary version: <1 x label><3072 x pixel> a record."""
    return b"".join(
        bytes([label])
        + image[0].tobytes()  # red, row by row
        + image[1].tobytes()
        + image[2].tobytes()
        for image, label in zip(images, labels, strict=True)
    )


def cifar100(images: np.ndarray, labels: np.ndarray) -> bytes:
    """<1 x coarse label><1 x fine label><3072 x pixel> a record."""
    return b"".join(
        bytes([label // 5, label]) + image.tobytes()
        for image, label in zip(images, labels, strict=True)
    )


NAMES10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def cifar10_files(images: np.ndarray, labels: np.ndarray) -> dict[str, bytes]:
    """Six equal parts: five batches and the test batch."""
    parts = np.array_split(np.arange(len(labels)), 6)
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    files = {
        name: cifar10(images[part], labels[part]) for name, part in zip(names, parts, strict=True)
    }
    return files | {"batches.meta.txt": ("\n".join(NAMES10) + "\n\n").encode()}


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def write_archive(path: Path, files: Mapping[str, bytes], top: str) -> Path:
    """As the published archive: all files in one folder."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write_images(
    folder: Path, classes: Mapping[str, list[np.ndarray]], suffix: str = ".png"
) -> None:
    """A folder a class; images (height, width, 3) or (height, width)."""
    for name, images in classes.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, image in enumerate(images):
            Image.fromarray(image).save(folder / name / f"{number:03d}.png")


def npz(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path
