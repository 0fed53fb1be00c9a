"""Files of one JSON object a line that is appended to, by processes that may be cut off."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Lines:
    """`damaged`: lines that are no JSON object, such as one that a crash cut off."""

    records: list[dict[str, Any]]
    damaged: int = 0


def append_line(path: Path, line: str, *, sync: bool = False) -> None:
    """Append by one write, so that lines of two processes never mix.

    A line that a full disk or a crash cut off is ended first. `sync`: it is on the disk afterwards.
    Raises OSError.
    """
    text = line + "\n"
    with path.open("ab+") as file:
        if file.tell() and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
            text = "\n" + text
        file.write(text.encode())
        file.flush()
        if sync:
            os.fsync(file.fileno())


class Growing:
    """A file that is only appended to, read on from where the last look ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def new_lines(self) -> list[str]:
        """The whole lines since the last call; one without its end waits for it. While a copy is
        made anew, and is shorter for a moment, there are none."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read_bytes += len(whole) + len(end)
        return [line.decode(errors="replace") for line in whole.split(b"\n")] if end else []


def read_lines(path: Path) -> Lines:
    """All of the file; nothing where there is none."""
    if not path.exists():
        return Lines([])
    found: list[dict[str, Any]] = []
    damaged = 0
    for line in path.read_bytes().split(b"\n"):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            found.append(record)
        else:
            damaged += 1
    return Lines(found, damaged)
