"""What a source of samples is, whatever its files look like."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Protocol

import numpy as np

from fleetctl.errors import ExitCode, FleetError

type Fit = Literal["crop", "squash"]

_BLOCK_BYTES = 1 << 20


class DataSetError(FleetError):
    """A data set cannot be prepared or is damaged."""


class SourceError(DataSetError):
    """A source is not what it should be; names the file and what would be right."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_INPUT


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Options:
    """What a person chooses; `size` and `fit` are for image folders only."""

    size: int | None = None
    """Pixels a side."""
    fit: Fit | None = None
    """How an image becomes a square: cut off what is too long (the default), or squash it."""
    skip_broken: bool = False


@dataclass(frozen=True, slots=True)
class Images:
    """Images (samples, channels, height, width) of the samples `numbers`."""

    pixels: np.ndarray
    numbers: np.ndarray


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of a split: their labels, int64 (samples,), and their images on request.

    `read` may leave out broken ones, which it adds to the source's list.
    """

    labels: np.ndarray
    read: Callable[[np.ndarray], Images]
    where: Callable[[int], str]
    """File and place of a sample, for errors."""

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Source:
    """Samples as their source has them; `test` None: a part of `train` is taken."""

    kind: str
    train: Samples
    test: Samples | None
    shape: tuple[int, int, int]
    """Channels, height, width."""
    dtype: Literal["uint8", "float32"]
    class_names: tuple[str, ...] = ()
    broken: list[str] = field(default_factory=list)
    """Files that could not be decoded, each with the reason; grows while samples are read."""


def from_array(labels: np.ndarray, parts: Sequence[np.ndarray], names: Sequence[str]) -> Samples:
    """Samples whose images lie in arrays (samples, channels, height, width), one after another."""
    starts = np.cumsum([0, *(len(part) for part in parts)])

    def part_of(number: int) -> int:
        return int(np.searchsorted(starts, number, side="right")) - 1

    def read(numbers: np.ndarray) -> Images:
        owners = np.searchsorted(starts, numbers, side="right") - 1
        pixels = np.empty((len(numbers), *parts[0].shape[1:]), parts[0].dtype)
        for owner in np.unique(owners):
            here = owners == owner
            pixels[here] = parts[owner][numbers[here] - starts[owner]]
        return Images(pixels, numbers)

    def where(number: int) -> str:
        owner = part_of(number)
        return f"{names[owner]}: sample {number - starts[owner]}"

    return Samples(labels.astype(np.int64), read, where)


def require_room(folder: Path, needed_bytes: int, what: str) -> None:
    """Raise DataSetError where the disk of `folder` has less than that free."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise DataSetError(
            f"{what}: No space left on device for it: {needed_bytes:,} bytes are needed, "
            f"{free_bytes:,} are free; free some space there"
        )


def copy_exactly(source: Readable, target: Path, size_bytes: int, name: str) -> None:
    """Copy what must be `size_bytes` long. Raises SourceError for less, and for more."""
    left = size_bytes
    with target.open("wb") as file:
        while left and (block := source.read(min(left, _BLOCK_BYTES))):
            file.write(block)
            left -= len(block)
    if left:
        raise SourceError(
            f"{name}: truncated: {size_bytes - left} of {size_bytes} bytes; get it again"
        )
    if source.read(1):
        raise SourceError(f"{name}: longer than the {size_bytes} bytes that its header says")


def one_of(folder: Path, names: Sequence[str]) -> Path | None:
    """The one file of these names that is in the folder. Raises SourceError for two of them."""
    found = [folder / name for name in names if os.path.lexists(folder / name)]
    if len(found) > 1:
        both = " and ".join(path.name for path in found)
        raise SourceError(f"{folder}: {both} are both there; leave one of them")
    return found[0] if found else None
