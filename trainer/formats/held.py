"""Which files of a data set are whole in a folder, without reading all of them every time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainer.files import write_atomic
from trainer.formats.stored import Shard
from trainer.strictjson import Document, FormatError

MANIFEST = "manifest.json"
HELD = ".held.json"
"""The record of what was verified, beside the shards. It is never copied to another place."""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file as it was when its checksum was last compared."""

    file: str
    size_bytes: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Holdings(Document):
    """HELD of a folder: a file whose size and time of change are the recorded ones has the
    recorded checksum."""

    files: tuple[HeldFile, ...] = ()
    version: Literal[1] = 1

    @classmethod
    def of(cls, folder: Path) -> Holdings:
        """The record in `folder`; an empty one where there is none, or a damaged one."""
        try:
            return cls.read(folder / HELD)
        except (OSError, FormatError):
            return cls()


@dataclass(frozen=True, slots=True)
class Verified:
    """What `verify` found. `whole` maps files to their size in bytes."""

    whole: dict[str, int]
    missing: tuple[str, ...]
    corrupt: dict[str, str]
    """File -> the checksum that it has instead."""


def verify(folder: Path, shards: Iterable[Shard], *, full: bool = False) -> Verified:
    """Compare files in `folder` with what a manifest says of them.

    A file that has not changed since it was last verified is not read again, unless `full`.
    What was read is recorded, if the folder can be written.
    """
    known = {held.file: held for held in Holdings.of(folder).files}
    held: dict[str, HeldFile] = {}
    missing, corrupt = [], {}
    for shard in shards:
        try:
            seen = held_file(folder / shard.file, shard.sha256)
            if full or known.get(shard.file) != seen:
                found = sha256_of(folder / shard.file)
                if found != shard.sha256:
                    corrupt[shard.file] = found
                    continue
        except FileNotFoundError:
            missing.append(shard.file)
            continue
        held[shard.file] = seen
    if any(known.get(name) != each for name, each in held.items()):
        record(folder, held.values())
    sizes = {name: each.size_bytes for name, each in held.items()}
    return Verified(sizes, tuple(missing), corrupt)


def record(folder: Path, files: Iterable[HeldFile]) -> None:
    """Add `files` to the record of `folder`; nothing is kept where it cannot be written."""
    known = {held.file: held for held in Holdings.of(folder).files}
    known |= {held.file: held for held in files}
    text = Holdings(tuple(known.values())).to_json() + "\n"
    with suppress(OSError):
        write_atomic(folder / HELD, text.encode(), durable=False)


def held_file(path: Path, sha256: str) -> HeldFile:
    """A file as it is now, of which this checksum is known. Raises OSError."""
    status = path.stat()
    return HeldFile(path.name, status.st_size, status.st_mtime_ns, sha256)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
