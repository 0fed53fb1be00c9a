"""Data sets on the controller: prepared once, in checksummed shards, staged by launch.

A data set is a folder `data/NAME` of the rack with manifest.json and the shards that it names
(format: trainer.formats.DataManifest, ShardHeader).
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fleetctl.errors import ExitCode
from fleetctl.provision.sources import DataSetError, Options, Source, SourceError
from trainer.formats import MANIFEST, DataManifest, FormatError, held_file, record, verify

if TYPE_CHECKING:
    import numpy as np

    from fleetctl.provision.sources.choose import Kind

_TEST_FRACTION = 0.2
_SHOWN_BROKEN = 10
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
SKIPPED = "skipped.txt"
"""Beside the manifest: files of the source that were left out, one a line with the reason."""


class DataHeld(DataSetError):
    """Another `fleetctl data add` is going on."""

    exit_code: ClassVar[ExitCode] = ExitCode.HELD


@dataclass(frozen=True, slots=True)
class DataSet:
    """One line of `fleetctl data list`; `problem` says what is wrong with a damaged one."""

    name: str
    folder: Path
    train_samples: int = 0
    test_samples: int = 0
    classes: int = 0
    shape: tuple[int, ...] = ()
    seed: int = 0
    size_bytes: int = 0
    shards: int = 0
    recipe: str = ""
    skipped: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """What `fleetctl data add` is asked for."""

    name: str
    path: Path | None = None
    kind: Kind | None = None
    seed: int = 0
    options: Options = field(default_factory=Options)


type Progress = Callable[[str, int, int], None]
"""Called with what is being written, samples done, samples in all."""


def _quiet(_what: str, _done: int, _total: int) -> None:
    """No progress."""


def require_name(name: str) -> None:
    """Raises SourceError for what names no folder right below that of the data sets."""
    if not _NAME.fullmatch(name):
        raise SourceError(
            f"{name!r} is no name for a data set; use letters, digits, `.`, `_` and `-`"
        )


def add(wish: Wish, data_folder: Path, progress: Progress = _quiet) -> tuple[DataSet, bool]:
    """Prepare a data set below `data_folder`; whether anything was written.

    A whole one that was made in the same way from the same is left alone, a damaged or other one
    replaced at one moment, once the new one is whole. Raises DataSetError.
    """
    from fleetctl.provision.sources.choose import choose, recipe

    require_name(wish.name)
    kind, place = choose(wish.name, wish.path, wish.kind)
    made = recipe(kind, place, wish.options, wish.seed)
    folder = data_folder / wish.name
    if folder.exists():
        present = inspect(folder)
        if present.problem is None and present.recipe == made:
            return present, False
    data_folder.mkdir(parents=True, exist_ok=True)
    with _alone(data_folder):
        _remove_leftovers(data_folder, wish.name)
        try:
            building = Path(tempfile.mkdtemp(prefix=f".{wish.name}.", dir=data_folder))
        except OSError as error:
            raise DataSetError(f"{folder}: {error.strerror}") from error
        try:
            _build(wish, kind, place, made, building, progress)
            _put_in_place(building, folder)
        except OSError as error:
            raise DataSetError(f"{error.filename or folder}: {error.strerror}") from error
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return inspect(folder), True


def remove(name: str, data_folder: Path) -> bool:
    """Remove a data set at one moment; whether it was there. Raises DataSetError."""
    require_name(name)
    if not (data_folder / name).is_dir():
        return False
    with _alone(data_folder):
        gone = data_folder / f".{name}.gone"
        shutil.rmtree(gone, ignore_errors=True)
        try:
            (data_folder / name).rename(gone)
        except OSError as error:
            raise DataSetError(f"{data_folder / name}: {error.strerror}") from error
        shutil.rmtree(gone, ignore_errors=True)
    return True


def list_all(data_folder: Path, *, full: bool = False) -> list[DataSet]:
    """All data sets below `data_folder`, by name, the damaged ones with their problem."""
    folders = sorted(path for path in data_folder.glob("*") if path.is_dir())
    return [inspect(folder, full=full) for folder in folders if not folder.name.startswith(".")]


def inspect(folder: Path, *, full: bool = False) -> DataSet:
    """What a data set holds. A shard is read and its checksum compared if it has changed since,
    or in any case if `full`."""
    try:
        manifest = DataManifest.read(folder / MANIFEST)
        found = verify(folder, manifest.shards, full=full)
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}"
        return DataSet(folder.name, folder, problem=problem)
    except FormatError as error:
        return DataSet(folder.name, folder, problem=str(error))
    expected = {shard.file: shard.sha256 for shard in manifest.shards}
    problems = [
        f"{folder / file}: corrupt: expected sha256 {expected[file]}, found {sha256}"
        for file, sha256 in found.corrupt.items()
    ]
    problems += [f"{folder / file}: No such file or directory" for file in found.missing]
    if problems:
        return DataSet(folder.name, folder, problem=problems[0])
    skipped = folder / SKIPPED
    return DataSet(
        name=manifest.name,
        folder=folder,
        train_samples=manifest.train_samples,
        test_samples=manifest.test_samples,
        classes=manifest.classes,
        shape=manifest.shape,
        seed=manifest.seed,
        size_bytes=sum(found.whole.values()),
        shards=len(manifest.shards),
        recipe=manifest.recipe,
        skipped=len(skipped.read_text().splitlines()) if skipped.exists() else 0,
    )


@contextmanager
def _alone(data_folder: Path) -> Iterator[None]:
    """One `data add` at a time: the lock is on the folder itself and leaves nothing behind."""
    descriptor = os.open(data_folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise DataHeld(
            f"another `fleetctl data add` works in {data_folder}: wait for its end"
        ) from None
    finally:
        os.close(descriptor)


def _remove_leftovers(data_folder: Path, name: str) -> None:
    """Of an `add` that was killed."""
    for path in data_folder.glob(f".{name}.*"):
        shutil.rmtree(path, ignore_errors=True)


def _build(
    wish: Wish, kind: Kind, place: Path | None, made: str, folder: Path, progress: Progress
) -> None:
    import numpy as np

    from fleetctl.provision.shards import LABEL_BYTES, Moments, samples_per_shard, write_samples
    from fleetctl.provision.sources.choose import read
    from fleetctl.provision.sources.model import require_room

    scratch = folder / ".scratch"
    scratch.mkdir()
    source = read(kind, place, wish.options, scratch)
    train_order, test_order = _orders(source, wish, str(place or kind))
    tested = source.test or source.train
    where = str(place or kind)
    classes = _classes(source, where)
    sample_bytes = int(np.prod(source.shape)) * np.dtype(source.dtype).itemsize + LABEL_BYTES
    total = len(train_order) + len(test_order)
    require_room(folder, total * sample_bytes, str(folder.parent / wish.name))
    shard_samples = samples_per_shard(total, sample_bytes)
    moments = Moments()
    train, train_labels = write_samples(
        folder, "train", source.train, train_order, shard_samples, moments=moments,
        progress=lambda done: progress("training samples", done, len(train_order)),
    )  # fmt: skip
    test, test_labels = write_samples(
        folder, "test", tested, test_order, shard_samples,
        progress=lambda done: progress("test samples", done, len(test_order)),
    )  # fmt: skip
    _settle_broken(source, wish, folder)
    _require_samples(train_labels, test_labels, classes, source, where)
    mean, std = moments.of_channels()
    DataManifest(
        name=wish.name,
        classes=classes,
        shape=source.shape,
        dtype=source.dtype,
        seed=wish.seed,
        train=train,
        test=test,
        mean=mean,
        std=std,
        class_names=source.class_names,
        recipe=made,
    ).write(folder / MANIFEST)
    # What was just written need not be read again to be known.
    record(folder, [held_file(folder / shard.file, shard.sha256) for shard in (*train, *test)])
    shutil.rmtree(scratch)


def _orders(source: Source, wish: Wish, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Which samples are trained on, shuffled, so that a shard is a fair part of them; and which
    are tested. In file order a test set taken from the source would be other people's writing."""
    import numpy as np

    order = np.random.default_rng(wish.seed).permutation(len(source.train))
    if source.test is not None:
        return order, np.arange(len(source.test))
    test_samples = round(len(order) * _TEST_FRACTION)
    if test_samples == 0:
        raise SourceError(f"{where}: {len(order)} samples are too few to test with some of them")
    return order[test_samples:], order[:test_samples]


def _classes(source: Source, where: str) -> int:
    """Number of classes; each must have been seen in the training samples of the source."""
    import numpy as np

    for samples in filter(None, (source.train, source.test)):
        if samples.labels.min(initial=0) < 0:
            number = int(samples.labels.argmin())
            label = samples.labels[number]
            raise SourceError(
                f"{samples.where(number)} has label {label}; classes are counted from 0"
            )
    known = np.unique(source.train.labels)
    classes = len(source.class_names) or int(known[-1]) + 1
    if classes < 2:
        raise SourceError(f"{where}: fewer than 2 classes, so that there is nothing to learn")
    if len(known) < classes:
        number = int(np.argmax(source.train.labels))
        absent = next(c for c in range(classes) if c not in set(known.tolist()))
        raise SourceError(
            f"{source.train.where(number)} has label {known[-1]}, but no training sample has "
            f"label {absent}: a label out of range, or classes that are not counted from 0"
        )
    if source.test is not None and source.test.labels.max(initial=0) >= classes:
        number = int(source.test.labels.argmax())
        raise SourceError(
            f"{source.test.where(number)} has label {source.test.labels[number]}, which is not in "
            f"0..{classes - 1}, the labels of the training samples"
        )
    return classes


def _settle_broken(source: Source, wish: Wish, folder: Path) -> None:
    if not source.broken:
        return
    broken = sorted(source.broken)
    if not wish.options.skip_broken:
        shown = "\n  ".join(broken[:_SHOWN_BROKEN])
        more = len(broken) - _SHOWN_BROKEN
        raise SourceError(
            f"{len(broken)} images cannot be decoded:\n  {shown}"
            + (f"\n  and {more} more" if more > 0 else "")
            + "\nrepair or remove them, or leave them out with --skip-broken"
        )
    lines = "".join(line.replace("\n", " ") + "\n" for line in broken)
    (folder / SKIPPED).write_text(lines, errors="surrogateescape")


def _require_samples(
    train: np.ndarray, test: np.ndarray, classes: int, source: Source, where: str
) -> None:
    """Every class is trained on, and something is tested, after broken samples were left out."""
    import numpy as np

    counts = np.bincount(train, minlength=classes)
    if not counts.all():
        label = int(counts.argmin())
        name = source.class_names[label] if source.class_names else str(label)
        raise SourceError(
            f"{where}: no training sample of class {name} is left; give more of them, or another "
            "--seed"
        )
    if not len(test):
        raise SourceError(f"{where}: no test sample is left")


def _put_in_place(building: Path, folder: Path) -> None:
    building.chmod(0o755)
    old = building.with_name(f"{building.name}.old")
    if folder.exists():
        folder.rename(old)
    building.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
