"""A lock that a playbook holds from one of its steps to another, each a process of its own.

The file names the playbook, and counts as long as that process lives: one that was killed is in
nobody's way. It is read and written under flock, so that of two that come at once one gets it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True, slots=True)
class Process:
    """A pid may come again, with another start time (in ticks since boot)."""

    pid: int
    began: int

    def __str__(self) -> str:
        return f"{self.pid} {self.began}"

    @property
    def lives(self) -> bool:
        status = _status(self.pid)
        return status is not None and status[1] == self.began


def take(lock: Path, mine: Process) -> Process | None:
    """Have `mine` hold the lock; the living process that has it, if another does."""
    with _only_one(lock) as file:
        holder = _holder(file)
        if holder is not None and holder != mine and holder.lives:
            return holder
        _write(file, f"{mine}\n")
    return None


def drop(lock: Path, mine: Process) -> None:
    """Let go of the lock, if `mine` has it. The file stays: somebody may be waiting at it."""
    with _only_one(lock) as file:
        if _holder(file) == mine:
            _write(file, "")


def this_playbook() -> Process | None:
    """The ansible-playbook that this process is a step of; None if it is none's. Its workers are
    forks that bear the same name, so it is the topmost of them."""
    found, pid = None, "self"
    while pid != "0" and (status := _status(pid)) is not None:
        parent, began, own = status
        if _is_ansible(own):
            found = Process(own, began)
        elif found is not None:
            break
        pid = str(parent)
    return found


@contextmanager
def _only_one(lock: Path) -> Iterator[IO[str]]:
    with lock.open("a+") as file:
        lock.chmod(0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _holder(file: IO[str]) -> Process | None:
    file.seek(0)
    fields = file.read().split()
    return Process(int(fields[0]), int(fields[1])) if len(fields) == 2 else None


def _write(file: IO[str], text: str) -> None:
    file.truncate(0)
    file.write(text)
    file.flush()


def _is_ansible(pid: int) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(each.rpartition(b"/")[2] == b"ansible-playbook" for each in arguments[:3])


def _status(pid: int | str) -> tuple[int, int, int] | None:
    """Parent, start time and pid of a process that has not ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else (int(fields[1]), int(fields[19]), int(text.split()[0]))
