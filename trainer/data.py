"""Data sets in checksummed shards, and the order in which a run sees their samples.

The order and the augmentation of a sample follow from seed, epoch and the sample's number alone,
so N phones see what one process with the same global batch would see, and a resumed run what an
undisturbed one would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from trainer.errors import TrainerError
from trainer.formats import (
    MANIFEST,
    DataManifest,
    Plan,
    Shard,
    ShardHeader,
    held_samples,
    needed_shards,
    verify,
)
from trainer.shares import largest_remainder, part_of
from trainer.strictjson import FormatError

_LABEL_BYTES = 8
_HEADER_LIMIT_BYTES = 4096
_ORDER, _SHIFTS, _SHARE = 0, 1, 2  # streams of random numbers


class DataError(TrainerError):
    """A data set is missing, damaged or not what its manifest says; names the file."""


class Images(Protocol):
    """Images of a split: an array of float32 (samples, channels, height, width), or what can be
    asked for parts of one by a slice or by the samples' numbers."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, samples: slice | np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, slots=True)
class Split:
    """Images and their labels as int64 (samples,). Where a phone holds a part of the samples
    only, the labels of the others are -1 and their images cannot be taken."""

    images: Images
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, samples: np.ndarray) -> Split:
        """The split of these samples alone, in memory or mapped as this one is."""
        if isinstance(self.images, MappedImages):
            return Split(self.images.only(samples), self.labels[samples])
        return Split(self.images[samples], self.labels[samples])


@dataclass(frozen=True, slots=True)
class Data:
    """A data set. `mean` and `std` as in DataManifest; empty where nobody measured them."""

    train: Split
    test: Split
    classes: int
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


def load(folder: Path, plan: Plan | None = None, rank: int = 0) -> Data:
    """The data set in `folder`, every byte verified unless it was before.

    Images stay in the files and are read batch by batch. A `plan` that says `stage: share` asks
    for the part of `rank` only. Raises DataError, which names the file.
    """
    cure = f"Run `fleetctl data add {folder.name}` and launch again, which stages it anew."
    try:
        manifest = DataManifest.read(folder / MANIFEST)
        shards = needed_shards(manifest, plan, rank) if plan else manifest.shards
        _require(folder, shards)
        needed = {shard.file for shard in shards}
        return Data(
            _read_split(folder, manifest, manifest.train, needed),
            _read_split(folder, manifest, manifest.test, needed),
            manifest.classes,
            manifest.mean,
            manifest.std,
        )
    except FileNotFoundError as error:
        if plan is None:
            cure += " With `stage: share`, leave the data to trainer.fit."
        raise DataError(f"{error.filename}: no such file. {cure}") from None
    except (FormatError, DataError) as error:
        raise DataError(f"{error}. {cure}") from None


def _require(folder: Path, shards: Sequence[Shard]) -> None:
    found = verify(folder, shards)
    expected = {shard.file: shard.sha256 for shard in shards}
    for file, sha256 in found.corrupt.items():
        path = folder / file
        raise DataError(f"{path}: corrupt: expected sha256 {expected[file]}, found {sha256}")
    for file in found.missing:
        raise FileNotFoundError(2, "No such file or directory", str(folder / file))


def _read_split(
    folder: Path, manifest: DataManifest, shards: tuple[Shard, ...], needed: set[str]
) -> Split:
    starts = np.cumsum([0, *(shard.samples for shard in shards)])
    if not starts[-1]:
        raise DataError(f"{folder / MANIFEST}: a split without samples")
    labels = np.full(starts[-1], -1, np.int64)
    parts: list[np.ndarray | None] = []
    for start, shard in zip(starts, shards, strict=False):
        mapped = None
        if shard.file in needed:
            mapped, own = _map_shard(folder / shard.file, shard, manifest)
            labels[start : start + shard.samples] = own
        parts.append(mapped)
    return Split(MappedImages(parts, starts, manifest.shape), labels)


def _map_shard(path: Path, shard: Shard, manifest: DataManifest) -> tuple[np.ndarray, np.ndarray]:
    """The images in the file, and its labels in memory."""
    with path.open("rb") as file:
        line = file.readline(_HEADER_LIMIT_BYTES)
        header = ShardHeader.from_json(line, f"{path} (header)")
        body_bytes = file.seek(0, 2) - len(line)
    stated = (header.samples, header.shape, header.dtype)
    if stated != (shard.samples, manifest.shape, manifest.dtype):
        raise DataError(f"{path}: header {stated} is not what {MANIFEST} says")
    dtype = np.dtype(header.dtype).newbyteorder("<")
    image_bytes = header.samples * int(np.prod(header.shape)) * dtype.itemsize
    expected_bytes = image_bytes + header.samples * _LABEL_BYTES
    if body_bytes != expected_bytes:
        raise DataError(f"{path}: {body_bytes} bytes of samples, expected {expected_bytes}")
    images = np.memmap(path, dtype, "r", len(line), (header.samples, *header.shape))
    labels = np.fromfile(path, "<i8", header.samples, offset=len(line) + image_bytes)
    outside = labels[(labels < 0) | (labels >= manifest.classes)]
    if outside.size:
        raise DataError(f"{path}: label {outside[0]} is not in 0..{manifest.classes - 1}")
    return images, labels.astype(np.int64)


class MappedImages:
    """Images in mapped files; a part of them is read, and made float32, when it is asked for.

    `parts` are the shards' images, None for a shard that this phone does not hold; `starts` the
    numbers of their first samples, and the number of all. `chosen` makes it a choice of them.
    """

    def __init__(
        self,
        parts: Sequence[np.ndarray | None],
        starts: np.ndarray,
        shape: tuple[int, ...],
        chosen: np.ndarray | None = None,
    ) -> None:
        self._parts, self._starts, self._shape, self._chosen = parts, starts, shape, chosen

    def __len__(self) -> int:
        return int(self._starts[-1]) if self._chosen is None else len(self._chosen)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self._shape)

    def only(self, samples: np.ndarray) -> MappedImages:
        """Sample i of what is returned is sample `samples[i]` of these."""
        chosen = samples if self._chosen is None else self._chosen[samples]
        return MappedImages(self._parts, self._starts, self._shape, chosen)

    def __getitem__(self, samples: slice | np.ndarray) -> np.ndarray:
        """float32 (len, channels, height, width). Raises DataError for what is not held here."""
        if isinstance(samples, slice):
            samples = np.arange(*samples.indices(len(self)))
        if self._chosen is not None:
            samples = self._chosen[samples]
        found = np.empty((len(samples), *self._shape), np.float32)
        shards = np.searchsorted(self._starts, samples, side="right") - 1
        for number in np.unique(shards):
            here = shards == number
            images = self._parts[number]
            if images is None:
                sample = samples[here][0]
                raise DataError(f"sample {sample} is in shard {number}, which is not on this phone")
            taken = images[samples[here] - self._starts[number]]
            found[here] = taken / np.float32(255) if taken.dtype == np.uint8 else taken
        return found


def order_of(plan: Plan, samples: int, epoch: int) -> np.ndarray:
    """The order of the training samples of a plan's data set in an epoch."""
    if plan.data.stage == "share":
        return share_order(samples, plan.seed, epoch, plan.samples_per_rank)
    return epoch_order(samples, plan.seed, epoch)


def samples_alone(plan: Plan, samples: int, rank: int) -> np.ndarray:
    """The samples of a phone that trains alone, in proportion to its part of the batch."""
    if plan.data.stage == "share":
        part = held_samples(samples, plan.samples_per_rank, rank)
        return np.arange(part.start, part.stop)
    return share_of_samples(samples, plan.seed, plan.samples_per_rank, rank)


def epoch_order(samples: int, seed: int, epoch: int) -> np.ndarray:
    """The order of the training samples in an epoch: a permutation of 0..samples-1."""
    return np.random.default_rng((seed, epoch, _ORDER)).permutation(samples)


def share_order(samples: int, seed: int, epoch: int, shares: Sequence[int]) -> np.ndarray:
    """The order in an epoch where each phone holds its own samples only (`stage: share`).

    A permutation as epoch_order's, of which each batch is dealt to the ranks in the same way; but
    what falls to a rank is of the samples that it holds (`held_samples`), in an order of its own.
    """
    held = largest_remainder(samples, shares)
    starts = np.cumsum([0, *held])
    own = [
        start + np.random.default_rng((seed, epoch, _ORDER, rank)).permutation(count)
        for rank, (start, count) in enumerate(zip(starts, held, strict=False))
    ]
    batch = sum(shares)
    whole, rest = divmod(samples, batch)
    last = largest_remainder(rest, shares)
    # held is whole * shares + last: both round the same fractions in the same order.
    order = [own[r][b * n : (b + 1) * n] for b in range(whole) for r, n in enumerate(shares)]
    order += [own[r][len(own[r]) - n :] for r, n in enumerate(last)]
    return np.concatenate(order)


def share_of_samples(samples: int, seed: int, shares: Sequence[int], rank: int) -> np.ndarray:
    """The samples of a phone that trains alone out of a data set that all hold."""
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
