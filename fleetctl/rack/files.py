"""Files that a crash or a reader never sees half written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_ROOM_BYTES = 64 * 1024


def write_atomic(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Replace `path` by `content` at one moment; it survives a power cut.

    Raises OSError (a full disk) and leaves the old file.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)  # whatever the umask is
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def is_full(folder: Path) -> bool:
    """Whether the file system that holds `folder` has no room for even a few pages."""
    try:
        return shutil.disk_usage(folder).free < _ROOM_BYTES
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
