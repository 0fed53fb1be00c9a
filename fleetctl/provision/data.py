"""Data sets on the controller: prepared once, in checksummed shards, staged by launch.

A data set is a folder `data/NAME` of the rack with manifest.json and the shards that it names
(format: trainer.formats.DataManifest, ShardHeader).
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fleetctl.errors import ExitCode, FleetError
from trainer.formats import MANIFEST, DataManifest, FormatError, Shard, ShardHeader

if TYPE_CHECKING:
    import numpy as np

type Dtype = Literal["float32", "uint8"]

_SHARD_SAMPLES = 400
_TEST_FRACTION = 0.2


class DataSetError(FleetError):
    """A data set cannot be prepared or is damaged."""


class UnknownDataSetError(DataSetError):
    exit_code = ExitCode.BAD_INPUT


@dataclass(frozen=True, slots=True)
class DataSet:
    """One line of `fleetctl data list`; `problem` says what is wrong with a damaged one."""

    name: str
    folder: Path
    train_samples: int = 0
    test_samples: int = 0
    classes: int = 0
    seed: int = 0
    size_bytes: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    """Samples in the order in which their source has them; images in 0..1."""

    images: np.ndarray
    labels: np.ndarray
    classes: int


def add(name: str, data_folder: Path, seed: int) -> tuple[DataSet, bool]:
    """Prepare data set `name` below `data_folder`; whether anything was written.

    A whole one with this seed is left alone, a damaged or other one replaced at one moment.
    Raises DataSetError.
    """
    if name not in SOURCES:
        raise UnknownDataSetError(
            f"{name}: no such data set; fleetctl can prepare {', '.join(SOURCES)}"
        )
    folder = data_folder / name
    if folder.exists():
        present = inspect(folder)
        if present.problem is None and present.seed == seed:
            return present, False
    data_folder.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=data_folder))
    try:
        _build(name, SOURCES[name](), seed, building)
        _put_in_place(building, folder)
    except OSError as error:
        raise DataSetError(f"{error.filename or folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return inspect(folder), True


def list_all(data_folder: Path) -> list[DataSet]:
    """All data sets below `data_folder`, by name, the damaged ones with their problem."""
    folders = sorted(path for path in data_folder.glob("*") if path.is_dir())
    return [inspect(folder) for folder in folders if not folder.name.startswith(".")]


def inspect(folder: Path) -> DataSet:
    """What a data set holds; every shard is read and its checksum compared."""
    try:
        manifest = DataManifest.read(folder / MANIFEST)
        size_bytes = sum(_verify(folder / s.file, s) for s in (*manifest.train, *manifest.test))
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}"
        return DataSet(folder.name, folder, problem=problem)
    except (FormatError, DataSetError) as error:
        return DataSet(folder.name, folder, problem=str(error))
    return DataSet(
        name=manifest.name,
        folder=folder,
        train_samples=manifest.train_samples,
        test_samples=manifest.test_samples,
        classes=manifest.classes,
        seed=manifest.seed,
        size_bytes=size_bytes,
    )


def write_split(
    folder: Path, prefix: str, images: np.ndarray, labels: np.ndarray, shard_samples: int
) -> tuple[Shard, ...]:
    """Shard files of a split, `shard_samples` each; the last one takes what remains."""
    shards = []
    for number, start in enumerate(range(0, len(labels), shard_samples)):
        part = slice(start, start + shard_samples)
        dtype: Dtype = "uint8" if images.dtype == "uint8" else "float32"
        header = ShardHeader(len(labels[part]), tuple(images.shape[1:]), dtype)
        content = b"".join(
            [
                header.to_json().encode() + b"\n",
                images[part].astype("u1" if dtype == "uint8" else "<f4").tobytes(),
                labels[part].astype("<i8").tobytes(),
            ]
        )
        file = f"{prefix}-{number:03d}.shard"
        (folder / file).write_bytes(content)
        shards.append(Shard(file, header.samples, hashlib.sha256(content).hexdigest()))
    return tuple(shards)


def _build(name: str, source: _Source, seed: int, folder: Path) -> None:
    """Shuffle before the split: in file order the test set would be other people's writing."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(len(source.labels))
    test_samples = round(len(order) * _TEST_FRACTION)
    test, train = order[:test_samples], order[test_samples:]
    images, labels = source.images, source.labels
    DataManifest(
        name=name,
        classes=source.classes,
        shape=tuple(images.shape[1:]),
        dtype="float32",
        seed=seed,
        train=write_split(folder, "train", images[train], labels[train], _SHARD_SAMPLES),
        test=write_split(folder, "test", images[test], labels[test], _SHARD_SAMPLES),
    ).write(folder / MANIFEST)


def _put_in_place(building: Path, folder: Path) -> None:
    building.chmod(0o755)
    old = building.with_name(f"{building.name}.old")
    if folder.exists():
        folder.rename(old)
    building.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _verify(path: Path, shard: Shard) -> int:
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != shard.sha256:
        raise DataSetError(f"{path}: corrupt: expected sha256 {shard.sha256}, found {found}")
    return len(content)


def _digits() -> _Source:
    """1,797 handwritten digits of 8x8 pixels (UCI), which scikit-learn ships."""
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images[:, np.newaxis] / digits.images.max()).astype(np.float32)
    return _Source(images, digits.target.astype(np.int64), classes=10)


SOURCES: dict[str, Callable[[], _Source]] = {"digits": _digits}
"""Data sets that `add` can prepare without a download."""
