"""What is kept in files: data sets and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainer.formats.models import ModelSpec
from trainer.strictjson import Document


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of samples; shards of a split may be of uneven length."""

    file: str
    samples: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DataManifest(Document):
    """manifest.json of a data set: what its shards hold and their checksums.

    Images are stored as `dtype` and reach the training as float32: `uint8` divided by 255,
    `float32` as it is. `mean` and `std` are of those numbers, one a channel, over the training
    samples; both are empty in a data set that was made before they were measured.
    """

    name: str
    classes: int
    shape: tuple[int, ...]
    """Shape of one image: channels, height, width."""
    dtype: Literal["float32", "uint8"]
    seed: int
    """Of the permutation that split the source into train and test."""
    train: tuple[Shard, ...]
    test: tuple[Shard, ...]
    mean: tuple[float, ...] = ()
    """Per channel; (image - mean) / std has mean 0 and standard deviation 1."""
    std: tuple[float, ...] = ()
    """Per channel, of the whole population; 0 for a channel that never changes."""
    class_names: tuple[str, ...] = ()
    """By label, where the source names its classes."""
    recipe: str = ""
    """What it was made from and how; making it again from the same changes nothing."""
    version: Literal[1] = 1

    @property
    def shards(self) -> tuple[Shard, ...]:
        return (*self.train, *self.test)

    @property
    def train_samples(self) -> int:
        return sum(shard.samples for shard in self.train)

    @property
    def test_samples(self) -> int:
        return sum(shard.samples for shard in self.test)


@dataclass(frozen=True, slots=True)
class ShardHeader(Document):
    """First line of a shard file; the images follow as `dtype` in C order, then the labels as
    little-endian int64."""

    samples: int
    shape: tuple[int, ...]
    dtype: Literal["float32", "uint8"]
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class CheckpointHeader(Document):
    """First line of a checkpoint file; the payload (torch.save) follows."""

    run: str
    phone: str
    time: float
    model: ModelSpec
    layout_sha256: str
    """Of the parameters' names and shapes: the same architecture has the same."""
    iteration: int
    epoch: int
    payload_bytes: int
    payload_sha256: str
    version: Literal[1] = 1
