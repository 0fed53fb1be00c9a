"""Which kind of source lies at a path, and how it is read."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal, get_args

from fleetctl.provision.sources import arrays, cifar, digits, idx
from fleetctl.provision.sources.model import Options, Source, SourceError

type Kind = Literal["digits", "cifar10", "cifar100", "mnist", "images", "npz"]
KINDS: tuple[Kind, ...] = get_args(Kind.__value__)

_LOOKS = (
    "cifar10 or cifar100 (binary version, a folder or the archive), mnist (a folder of idx files), "
    "images (a folder a class), npz (one file)"
)


def choose(name: str, path: Path | None, kind: Kind | None) -> tuple[Kind, Path | None]:
    """The kind of source and where it begins. Raises SourceError where that cannot be told."""
    if path is None:
        if kind in (None, "digits") and (name == "digits" or kind == "digits"):
            return "digits", None
        raise SourceError(
            f"{name}: no such data set comes with fleetctl, which has digits; say --from PATH: "
            f"{_LOOKS}"
        )
    if kind == "digits":
        raise SourceError(f"digits come with fleetctl, not from {path}; leave --from out")
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder")
    found, place = _look(path)
    if found is None and kind is None:
        raise SourceError(f"{path}: cannot tell what this is; expected {_LOOKS}. --kind says which")
    if kind is not None and kind != found:
        place = path
    _require_type(kind or found, place)
    return kind or found, place  # type: ignore[return-value]  # one of them is there


def _look(path: Path) -> tuple[Kind | None, Path]:
    """What lies at `path`, or in the only folder in it, as an unpacked archive has."""
    if path.is_file():
        if path.suffix == ".npz":
            return "npz", path
        if path.name.endswith((".tar.gz", ".tgz", ".tar")):
            layout = cifar.layout_of(path)
            return (layout.kind if layout else None), path  # type: ignore[return-value]
        return None, path
    from fleetctl.provision.sources import folders

    for place in (path, *_only_folder(path)):
        layout = cifar.layout_of(place)
        if layout is not None:
            return layout.kind, place  # type: ignore[return-value]
        if idx.is_idx(place):
            return "mnist", place
    for place in _only_folder(path):
        if place.name != folders.TRAIN and folders.is_image_folder(place):
            return "images", place
    return ("images" if folders.is_image_folder(path) else None), path


def _only_folder(path: Path) -> list[Path]:
    entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    return entries if len(entries) == 1 and entries[0].is_dir() else []


def _require_type(kind: Kind | None, path: Path) -> None:
    if kind in ("mnist", "images") and not path.is_dir():
        raise SourceError(f"{path}: {kind} is read from a folder")
    if kind == "npz" and not path.is_file():
        raise SourceError(f"{path}: npz is read from a file")


def read(kind: Kind, path: Path | None, options: Options, scratch: Path) -> Source:
    """Open a source; what must be unpacked goes to `scratch`. Raises SourceError."""
    if kind != "images" and options != Options():
        raise SourceError(f"--size, --fit and --skip-broken are for image folders, not for {kind}")
    if path is None:
        return digits.read()
    if kind in cifar.LAYOUTS:
        return cifar.read(path, cifar.LAYOUTS[kind], scratch)
    if kind == "mnist":
        return idx.read(path, scratch)
    if kind == "npz":
        return arrays.read(path, scratch)
    from fleetctl.provision.sources import folders

    return folders.read(path, options)


def recipe(kind: Kind, path: Path | None, options: Options, seed: int) -> str:
    """Equal for equal choices and files, the latter by name, size and time of change."""
    digest = hashlib.sha256()
    for file in _files(path) if path else []:
        status = file.stat()
        line = f"{file.relative_to(path)}\0{status.st_size}\0{status.st_mtime_ns}\n"  # type: ignore[arg-type]
        digest.update(line.encode(errors="surrogateescape"))
    words = [kind, f"seed={seed}"]
    if kind == "images":
        words += [f"size={options.size}", f"fit={options.fit or 'crop'}"]
        words += ["skip-broken"] * options.skip_broken
    return " ".join([*words, f"files={digest.hexdigest()[:16]}"] if path else words)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = [Path(place) / name for place, _, names in os.walk(path) for name in names]
    return sorted(file for file in found if file.is_file())
