"""What the exporter reads on a phone, each source apart, so that one cannot spoil another."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from exporters.metrics import Sample


class Unavailable(Exception):
    """This phone does not tell; the message says what and why."""


@dataclass(frozen=True, slots=True)
class Source:
    """`read` gives the samples or raises; nothing of it is shown if it takes longer than
    `limit_seconds`."""

    name: str
    read: Callable[[], Iterable[Sample]]
    every_seconds: float = 5.0
    limit_seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie on a phone."""

    prefix: Path
    home: Path
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dumpsys: Path = Path("/system/bin/dumpsys")
    """Android's own: Termux wraps others of Android's tools, not this one."""

    @classmethod
    def of_environment(cls) -> Layout:
        files = "/data/data/com.termux/files"
        return cls(
            prefix=Path(os.environ.get("PREFIX", f"{files}/usr")),
            home=Path(os.environ.get("HOME", f"{files}/home")),
        )

    @property
    def folder(self) -> Path:
        return self.home / "phonerack"


LARGEST_FILE = 4 * 1024 * 1024


def read_text(path: Path) -> str:
    """The content of a file of the kernel or of ours; undecodable bytes are replaced, and
    no more than `LARGEST_FILE` bytes are looked at."""
    with path.open("rb") as file:
        return file.read(LARGEST_FILE).decode(errors="replace").strip()


def numbered(folder: Path, stem: str) -> list[Path]:
    """`folder`'s entries named stem and a number, by number. Raises OSError if it is denied."""
    found = [(p, p.name.removeprefix(stem)) for p in folder.iterdir() if p.name.startswith(stem)]
    return [p for p, number in sorted(found, key=lambda f: f[1].zfill(4)) if number.isdecimal()]


def all_sources(layout: Layout) -> list[Source]:
    """Quick ones first: their values are published before a slow one has answered."""
    from exporters.sources import battery, software, system, textfile, thermal, training

    return [
        *system.sources(layout),
        training.source(layout),
        *software.sources(layout),
        textfile.source(layout),
        thermal.source(layout),
        battery.source(layout),
    ]
