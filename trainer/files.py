"""Files that a crash or a reader never sees half written."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path


def write_atomic(path: str | os.PathLike[str], content: bytes, *, durable: bool = True) -> None:
    """Replace `path` by `content` at one moment: a reader, or a crash, sees old or new.

    `durable` also survives a power cut; progress, which is rewritten all the time, spares the
    flash that. Raises OSError (a full disk) and leaves the old file.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_all(folder: Path) -> None:
    """Make all files in `folder` survive a power cut: at one go, not one by one, where Linux can
    (syncfs(2)), since every single fsync waits for the flash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None).syncfs(descriptor) == 0:
            return
    except AttributeError:
        pass  # an old C library
    finally:
        os.close(descriptor)
    for path in folder.iterdir():
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
