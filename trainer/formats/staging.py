"""What controller and phones tell each other when a data set is brought to phones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainer.strictjson import Document


@dataclass(frozen=True, slots=True)
class Survey(Document):
    """What a phone answers about one data set."""

    whole: tuple[str, ...]
    """Files that it holds and that have the manifest's checksums."""
    placed: bool
    """Whether these lie in their place, beside this manifest, and not only beside it."""
    free_bytes: int
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class StoreOrder(Document):
    """What a phone is asked about one data set, or to do with it."""

    name: str
    manifest: str
    """The text of the manifest, whose checksum names the version of the data set."""
    files: tuple[str, ...] = ()
    """What must be whole before it takes its place."""
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file on its way. `lacking`: the ranks that do not hold it yet, in ascending order."""

    file: str
    size_bytes: int
    sha256: str
    lacking: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StagePlan(Document):
    """stage.json: a broadcast from the first phone, which gets its files from the controller,
    along the chain of the phones in rank order."""

    run: str
    phones: tuple[str, ...]
    order: StoreOrder
    files: tuple[StagedFile, ...]
    chunk_bytes: int = 512 * 1024
    patience_seconds: float = 120.0
    """A rank gives up when nothing has moved for so long."""
    version: Literal[1] = 1
