"""CIFAR-10 and CIFAR-100, "binary version" (Krizhevsky 2009, cs.toronto.edu/~kriz/cifar.html).

A record is one byte a label (CIFAR-100: coarse, then fine) and 3072 bytes of pixels: 32x32 red,
then green, then blue, row by row. Files have no header.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from fleetctl.provision.sources.model import (
    Samples,
    Source,
    SourceError,
    copy_exactly,
    from_array,
    require_room,
)

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32


@dataclass(frozen=True, slots=True)
class Layout:
    """One of the two sets. The label is the last of a record's `label_bytes`."""

    kind: str
    label_bytes: int
    classes: int
    train: tuple[str, ...]
    test: str
    names: str

    @property
    def record_bytes(self) -> int:
        return self.label_bytes + _PIXELS

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train, self.test)


_BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR10 = Layout("cifar10", 1, 10, _BATCHES, "test_batch.bin", "batches.meta.txt")
CIFAR100 = Layout("cifar100", 2, 100, ("train.bin",), "test.bin", "fine_label_names.txt")
LAYOUTS = {layout.kind: layout for layout in (CIFAR10, CIFAR100)}


def layout_of(path: Path) -> Layout | None:
    """Which of the two lies in a folder or an archive, by the names of its files."""
    names = _names_in_archive(path) if path.is_file() else {each.name for each in path.iterdir()}
    found = [layout for layout in LAYOUTS.values() if {layout.train[0], layout.test} & names]
    return found[0] if found else None


def read(path: Path, layout: Layout, scratch: Path) -> Source:
    """The data set in a folder, or in the archive as it is published. Raises SourceError."""
    folder = path
    if path.is_file():
        folder = scratch
        _unpack(path, layout, scratch)
    files = {name: _records(folder / name, path, layout) for name in layout.files}
    train = _samples({name: files[name] for name in layout.train}, path, layout)
    test = _samples({layout.test: files[layout.test]}, path, layout)
    return Source(layout.kind, train, test, _SHAPE, "uint8", _class_names(folder, layout))


def _records(file: Path, path: Path, layout: Layout) -> np.ndarray:
    """The records of a file, as bytes (records, record_bytes), in the file."""
    if not file.is_file():
        expected = ", ".join(layout.files)
        raise SourceError(f"{path}: {file.name} is missing; {layout.kind} has {expected}")
    size = file.stat().st_size
    if not size or size % layout.record_bytes:
        raise SourceError(
            f"{path}: {file.name} has {size} bytes, which is no whole number of records of "
            f"{layout.record_bytes} bytes: truncated, or not {layout.kind}'s binary version"
        )
    return np.memmap(file, np.uint8, "r", shape=(size // layout.record_bytes, layout.record_bytes))


def _samples(files: Mapping[str, np.ndarray], path: Path, layout: Layout) -> Samples:
    at = layout.label_bytes - 1
    for name, records in files.items():
        outside = np.flatnonzero(records[:, at] >= layout.classes)
        if outside.size:
            number = int(outside[0])
            raise SourceError(
                f"{path}: {name}: record {number} has label {records[number, at]}, which is not "
                f"in 0..{layout.classes - 1}: not {layout.kind}'s binary version, or damaged"
            )
    images = [records[:, layout.label_bytes :].reshape(-1, *_SHAPE) for records in files.values()]
    labels = np.concatenate([records[:, at] for records in files.values()])
    return from_array(labels, images, [f"{path}: {name}" for name in files])


def _class_names(folder: Path, layout: Layout) -> tuple[str, ...]:
    """The names that come along; none where that file is missing or has another number of them."""
    file = folder / layout.names
    lines = file.read_text(errors="replace").split("\n") if file.is_file() else []
    names = tuple(line.strip() for line in lines if line.strip())
    return names if len(names) == layout.classes else ()


# --- the archive ---


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path) as archive:
            yield archive
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise SourceError(f"{path}: damaged or truncated archive ({error}); get it again") from None


def _names_in_archive(path: Path) -> set[str]:
    with _opened(path) as archive:
        return {PurePosixPath(member.name).name for member in archive}


def _unpack(path: Path, layout: Layout, scratch: Path) -> None:
    """Plain files of the known names only, whatever their folder in the archive is called."""
    wanted = {*layout.files, layout.names}
    with _opened(path) as archive:
        members = [m for m in archive if m.isfile() and PurePosixPath(m.name).name in wanted]
        require_room(scratch, sum(member.size for member in members), str(path))
        for member in members:
            name = PurePosixPath(member.name).name
            if (scratch / name).exists():
                raise SourceError(f"{path}: {name} is in the archive twice")
            content = archive.extractfile(member)
            if content is not None:
                copy_exactly(content, scratch / name, member.size, f"{path}: {name}")
