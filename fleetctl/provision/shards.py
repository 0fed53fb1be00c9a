"""A data set's files: samples in, checksummed shards and their moments out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from fleetctl.provision.sources import Samples, SourceError
from trainer.formats import Shard, ShardHeader

_SHARDS_WANTED = 128
_LEAST_BYTES, _MOST_BYTES = 128 * 1024, 16 * 1024 * 1024
_BLOCK_PIXELS = 1 << 19
LABEL_BYTES = 8

type Dtype = Literal["float32", "uint8"]
type Progress = Callable[[int], None]
"""Called with the number of samples that are done."""


def samples_per_shard(samples: int, sample_bytes: int) -> int:
    """Small enough to be dealt to many phones and sent in a row, large enough to be few."""
    wanted_bytes = samples * sample_bytes // _SHARDS_WANTED
    return max(1, min(max(wanted_bytes, _LEAST_BYTES), _MOST_BYTES) // sample_bytes)


@dataclass(slots=True)
class Moments:
    """Mean and standard deviation a channel of all images that were added.

    Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances
    (1979): stable, whatever the number of samples.
    """

    count: int = 0
    mean: np.ndarray | float = 0.0
    squares: np.ndarray | float = 0.0

    def add(self, images: np.ndarray) -> None:
        """Images (samples, channels, height, width); uint8 counts as 0..1."""
        block = max(1, _BLOCK_PIXELS // int(np.prod(images.shape[1:])))
        for start in range(0, len(images), block):
            self._add(images[start : start + block])

    def _add(self, images: np.ndarray) -> None:
        channels = images.swapaxes(0, 1).reshape(images.shape[1], -1).astype(np.float64)
        if images.dtype == np.uint8:
            channels /= 255
        count, mean = channels.shape[1], channels.mean(axis=1)
        squares = np.square(channels - mean[:, np.newaxis]).sum(axis=1)
        total, apart = self.count + count, mean - self.mean
        self.squares = self.squares + squares + apart**2 * (self.count * count / total)
        self.mean = self.mean + apart * (count / total)
        self.count = total

    def of_channels(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation."""
        mean, variance = np.atleast_1d(self.mean), np.atleast_1d(self.squares) / self.count
        return tuple(map(float, mean)), tuple(map(float, np.sqrt(variance)))


def write_samples(
    folder: Path,
    prefix: str,
    samples: Samples,
    order: np.ndarray,
    shard_samples: int,
    *,
    moments: Moments | None = None,
    progress: Progress = lambda _: None,
) -> tuple[tuple[Shard, ...], np.ndarray]:
    """Write samples in this order, one shard at a time in memory; and the labels of those written.

    Shards are shorter where samples are broken. Raises SourceError for pixels that are no numbers.
    """
    shards: list[Shard] = []
    written: list[np.ndarray] = []
    for start in range(0, len(order), shard_samples):
        found = samples.read(order[start : start + shard_samples])
        _require_finite(found.pixels, found.numbers, samples)
        labels = samples.labels[found.numbers]
        if moments is not None:
            moments.add(found.pixels)
        if len(labels):
            file = f"{prefix}-{len(shards):03d}.shard"
            shards.append(write_shard(folder, file, found.pixels, labels))
        written.append(labels)
        progress(min(start + shard_samples, len(order)))
    return tuple(shards), np.concatenate(written) if written else np.empty(0, np.int64)


def _require_finite(pixels: np.ndarray, numbers: np.ndarray, samples: Samples) -> None:
    if pixels.dtype == np.uint8:
        return
    bad = ~np.isfinite(pixels).all(axis=(1, 2, 3))
    if bad.any():
        number = int(numbers[np.flatnonzero(bad)[0]])
        raise SourceError(
            f"{samples.where(number)} holds a pixel that is not finite as float32; "
            "a training on it would give no number either"
        )


def write_split(
    folder: Path, prefix: str, images: np.ndarray, labels: np.ndarray, shard_samples: int
) -> tuple[Shard, ...]:
    """Shard files of arrays, `shard_samples` each; the last one takes what remains."""
    parts = [slice(n, n + shard_samples) for n in range(0, len(labels), shard_samples)]
    return tuple(
        write_shard(folder, f"{prefix}-{number:03d}.shard", images[part], labels[part])
        for number, part in enumerate(parts)
    )


def write_shard(
    folder: Path, file: str, images: np.ndarray, labels: Sequence[int] | np.ndarray
) -> Shard:
    """One file, in the format of trainer.formats.ShardHeader; images are uint8 or float32."""
    dtype: Dtype = "uint8" if images.dtype == np.uint8 else "float32"
    header = ShardHeader(len(labels), tuple(images.shape[1:]), dtype)
    parts = (
        header.to_json().encode() + b"\n",
        np.ascontiguousarray(images, "u1" if dtype == "uint8" else "<f4").data,
        np.ascontiguousarray(labels, "<i8").data,
    )
    digest = hashlib.sha256()
    with (folder / file).open("wb") as target:
        for part in parts:
            digest.update(part)
            target.write(part)
    return Shard(file, header.samples, digest.hexdigest())
