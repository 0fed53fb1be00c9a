"""MNIST's idx files (LeCun; also Fashion-MNIST, KMNIST, EMNIST), plain or gzipped.

Big-endian: two zero bytes, a type (8: unsigned byte), the number of dimensions, the dimensions as
32-bit numbers, the data in C order.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np

from fleetctl.provision.sources.model import (
    Samples,
    Source,
    SourceError,
    copy_exactly,
    from_array,
    one_of,
    require_room,
)

_UNSIGNED_BYTE = 8
_SPLITS = {"train": "train", "test": "t10k"}


def is_idx(folder: Path) -> bool:
    """Whether the training images lie there."""
    return any((folder / name).exists() for name in _names("train", "images", 3))


def read(folder: Path, scratch: Path) -> Source:
    """The four files in a folder. Raises SourceError."""
    train, test = (_samples(folder, prefix, scratch) for prefix in _SPLITS.values())
    shapes = [samples.read(np.arange(1)).pixels.shape[1:] for samples in (train, test)]
    if shapes[0] != shapes[1]:
        raise SourceError(f"{folder}: training images are {shapes[0]}, test images {shapes[1]}")
    return Source("mnist", train, test, (1, *shapes[0][1:]), "uint8")


def _names(prefix: str, what: str, dimensions: int) -> list[str]:
    """Both spellings that are about, plain and gzipped."""
    stems = [f"{prefix}-{what}{mark}idx{dimensions}-ubyte" for mark in ("-", ".")]
    return [f"{stem}{suffix}" for stem in stems for suffix in ("", ".gz")]


def _samples(folder: Path, prefix: str, scratch: Path) -> Samples:
    files = []
    for what, dimensions in (("images", 3), ("labels", 1)):
        names = _names(prefix, what, dimensions)
        file = one_of(folder, names)
        if file is None:
            raise SourceError(f"{folder}: {names[0]}[.gz] is missing")
        files.append((file, _array(file, dimensions, scratch)))
    (image_file, images), (label_file, labels) = files
    if len(images) != len(labels):
        raise SourceError(
            f"{image_file} has {len(images)} images and {label_file} {len(labels)} labels; "
            "they must be of one set"
        )
    if not images.size:
        raise SourceError(f"{image_file}: no images")
    return from_array(labels, [images[:, np.newaxis]], [str(image_file)])


def _array(file: Path, dimensions: int, scratch: Path) -> np.ndarray:
    """The content of a file, which stays in it, or in an unpacked copy in `scratch`."""
    header_bytes = 4 + 4 * dimensions
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as content:
            shape = _shape(file, content.read(header_bytes), dimensions)
            size_bytes = int(np.prod(shape, dtype=object))
            if file.suffix != ".gz":
                _require_size(file, header_bytes + size_bytes)
                plain, offset = file, header_bytes
            else:
                plain, offset = scratch / file.stem, 0
                require_room(scratch, size_bytes, str(file))
                copy_exactly(content, plain, size_bytes, str(file))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceError(f"{file}: damaged or truncated ({error}); get it again") from None
    if not size_bytes:
        return np.zeros(shape, np.uint8)
    return np.memmap(plain, np.uint8, "r", offset, shape)


def _shape(file: Path, header: bytes, dimensions: int) -> tuple[int, ...]:
    right = struct.pack(">HBB", 0, _UNSIGNED_BYTE, dimensions)
    if header[:4] != right:
        raise SourceError(
            f"{file}: begins with {header[:4].hex() or 'nothing'}, expected {right.hex()}: "
            f"idx with {dimensions} dimensions of unsigned bytes"
        )
    if len(header) < 4 + 4 * dimensions:
        raise SourceError(f"{file}: truncated in its header; get it again")
    shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", header[4:])
    return shape


def _require_size(file: Path, expected_bytes: int) -> None:
    size_bytes = file.stat().st_size
    if size_bytes != expected_bytes:
        word = "truncated" if size_bytes < expected_bytes else "too long"
        raise SourceError(
            f"{file}: {word}: {size_bytes} bytes, its header says {expected_bytes}; get it again"
        )
