"""Data sets in checksummed shards, and the order in which a run sees their samples.

The order and the augmentation of a sample follow from seed, epoch and the sample's number alone,
so N phones see what one process with the same global batch would see, and a resumed run what an
undisturbed one would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainer.errors import TrainerError
from trainer.formats import DataManifest, Shard, ShardHeader
from trainer.shares import largest_remainder, part_of
from trainer.strictjson import FormatError

MANIFEST = "manifest.json"
_LABEL_BYTES = 8
_ORDER, _SHIFTS, _SHARE = 0, 1, 2  # streams of random numbers


class DataError(TrainerError):
    """A data set is missing, damaged or not what its manifest says; names the file."""


@dataclass(frozen=True, slots=True)
class Split:
    """Images as float32 (samples, channels, height, width) and labels as int64 (samples,)."""

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, samples: np.ndarray) -> Split:
        return Split(self.images[samples], self.labels[samples])


@dataclass(frozen=True, slots=True)
class Data:
    """A data set in memory."""

    train: Split
    test: Split
    classes: int


def load(folder: Path) -> Data:
    """The data set in `folder`, every byte verified. Raises DataError."""
    cure = f"Run `fleetctl data add {folder.name}` and launch again, which stages it anew."
    try:
        manifest = DataManifest.read(folder / MANIFEST)
        return Data(
            _read_split(folder, manifest, manifest.train),
            _read_split(folder, manifest, manifest.test),
            manifest.classes,
        )
    except FileNotFoundError as error:
        raise DataError(f"{error.filename}: no such file. {cure}") from None
    except (FormatError, DataError) as error:
        raise DataError(f"{error}. {cure}") from None


def _read_split(folder: Path, manifest: DataManifest, shards: tuple[Shard, ...]) -> Split:
    parts = [_read_shard(folder / shard.file, shard, manifest) for shard in shards]
    if not sum(len(labels) for _, labels in parts):
        raise DataError(f"{folder / MANIFEST}: a split without samples")
    images, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Split(images, labels)


def _read_shard(path: Path, shard: Shard, manifest: DataManifest) -> tuple[np.ndarray, np.ndarray]:
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != shard.sha256:
        raise DataError(f"{path}: corrupt: expected sha256 {shard.sha256}, found {found}")
    line, _, body = content.partition(b"\n")
    header = ShardHeader.from_json(line, f"{path} (header)")
    stated = (header.samples, header.shape, header.dtype)
    if stated != (shard.samples, manifest.shape, manifest.dtype):
        raise DataError(f"{path}: header {stated} is not what {MANIFEST} says")
    dtype = np.dtype(header.dtype).newbyteorder("<")
    image_bytes = header.samples * int(np.prod(header.shape)) * dtype.itemsize
    expected_bytes = image_bytes + header.samples * _LABEL_BYTES
    if len(body) != expected_bytes:
        raise DataError(f"{path}: {len(body)} bytes of samples, expected {expected_bytes}")
    images = np.frombuffer(body[:image_bytes], dtype).reshape(header.samples, *header.shape)
    labels = np.frombuffer(body[image_bytes:], "<i8")
    outside = labels[(labels < 0) | (labels >= manifest.classes)]
    if outside.size:
        raise DataError(f"{path}: label {outside[0]} is not in 0..{manifest.classes - 1}")
    scale = np.float32(255 if header.dtype == "uint8" else 1)
    return images.astype(np.float32) / scale, labels.astype(np.int64)


def epoch_order(samples: int, seed: int, epoch: int) -> np.ndarray:
    """The order of the training samples in an epoch: a permutation of 0..samples-1."""
    return np.random.default_rng((seed, epoch, _ORDER)).permutation(samples)


def share_of_samples(samples: int, seed: int, shares: Sequence[int], rank: int) -> np.ndarray:
    """The samples of a phone that trains alone, in proportion to its part of the batch."""
    order = np.random.default_rng((seed, _SHARE)).permutation(samples)
    return order[part_of(largest_remainder(samples, shares), rank)]


def epoch_shifts(samples: int, seed: int, epoch: int, pixels: int) -> np.ndarray:
    """By how many rows and columns each sample is shifted in an epoch: (samples, 2)."""
    generator = np.random.default_rng((seed, epoch, _SHIFTS))
    return generator.integers(-pixels, pixels, size=(samples, 2), endpoint=True)


def shifted(images: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Each image moved by its (rows, columns); what comes in from the edge is 0."""
    margin = int(np.abs(shifts).max(initial=0))
    if margin == 0:
        return images
    count, channels, height, width = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (margin, margin), (margin, margin)))
    rows = (margin - shifts[:, :1] + np.arange(height))[:, None, :, None]
    columns = (margin - shifts[:, 1:] + np.arange(width))[:, None, None, :]
    which = np.arange(count)[:, None, None, None]
    moved: np.ndarray = padded[which, np.arange(channels)[None, :, None, None], rows, columns]
    return moved
