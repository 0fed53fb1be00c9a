"""One `fleetctl serve` a rack: who serves, and since when."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from fleetctl.errors import ExitCode, FleetError
from fleetctl.state import user

_PATIENCE_SECONDS = 1.0
"""Whoever asks whether serve runs holds the lock for a moment."""


class Serving(FleetError):
    """Another process serves the rack."""

    exit_code: ClassVar[ExitCode] = ExitCode.HELD


@dataclass(frozen=True, slots=True)
class Server:
    """A process that serves; `since` in seconds since the epoch."""

    pid: int
    who: str
    since: float

    def __str__(self) -> str:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since))
        return f"process {self.pid} of {self.who}, since {began}"


@contextmanager
def serving(path: Path) -> Iterator[Server]:
    """Be the one that serves. Raises Serving. The lock ends with the process."""
    with path.open("a+") as file:
        path.chmod(0o600)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not _take(file.fileno(), fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                holder = _read(path)
                raise Serving(
                    f"this rack is served already, by {holder or 'another process'}; "
                    "`systemctl status phonerack-serve` or its terminal tells more"
                )
            time.sleep(0.05)
        mine = Server(os.getpid(), user(), time.time())
        file.truncate(0)
        file.write(json.dumps(asdict(mine)))
        file.flush()
        yield mine


def server(path: Path) -> Server | None:
    """Who serves the rack now; None if nobody does."""
    if not path.exists():
        return None
    with path.open() as file:
        if _take(file.fileno(), fcntl.LOCK_SH):
            return None
        return _read(path) or Server(0, "somebody", time.time())


def _take(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(path: Path) -> Server | None:
    try:
        return Server(**json.loads(path.read_text()))
    except (ValueError, TypeError):
        return None  # it has only just begun
