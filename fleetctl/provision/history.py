"""What `fleetctl provision` did: a folder a run, the newest kept; and who is at it now."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar

from fleetctl.errors import ExitCode, FleetError
from fleetctl.rack.files import write_atomic

KEPT_RUNS = 20
RECORD, LOG = "record.json", "log.txt"


class ProvisionHeld(FleetError):
    """Another run of `fleetctl provision` is at this rack."""

    exit_code: ClassVar[ExitCode] = ExitCode.HELD


@dataclass(frozen=True, slots=True)
class Record:
    """One run. `arguments` are without secrets; `began` in seconds since the epoch.

    `phones` maps names to ok, changed, failed, unreachable, left out or skipped; `failures` to the
    task and the reason. `exit_code` is None while it runs, and for ever if it was killed.
    """

    run: str
    who: str
    arguments: tuple[str, ...]
    began: float
    seconds: float = 0.0
    exit_code: int | None = None
    phones: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def held(folder: Path, who: str) -> Iterator[None]:
    """Be the only one that provisions this rack. Raises ProvisionHeld with who is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "somebody"
            raise ProvisionHeld(
                f"{holder} provisions this rack now: wait for its end, then run this again"
            ) from None
        lock.truncate(0)
        since = time.strftime("%H:%M:%S")
        lock.write(f"{who} (process {os.getpid()}, since {since})")
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)


def begin(folder: Path, who: str, arguments: tuple[str, ...]) -> Record:
    """A new run with its folder; the oldest ones go."""
    now = time.time()
    stem = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    same = [name for name in list_runs(folder) if name.startswith(stem)]
    run = f"{stem}-{int(f'{same[-1]}-1'.split('-')[2]) + 1}" if same else stem
    (folder / run).mkdir(mode=0o700)
    for old in list_runs(folder)[:-KEPT_RUNS]:
        shutil.rmtree(folder / old, ignore_errors=True)
    record = Record(run, who, arguments, now)
    write(folder, record)
    return record


def write(folder: Path, record: Record) -> None:
    text = json.dumps({"version": 1, **asdict(record)}, indent=1)
    write_atomic(folder / record.run / RECORD, f"{text}\n", mode=0o600)


def list_runs(folder: Path) -> list[str]:
    """Names of the runs that are kept, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(
        (path.name for path in folder.iterdir() if path.is_dir()),
        key=lambda name: [part.zfill(8) for part in name.split("-")],
    )


def read(folder: Path) -> list[Record]:
    """The runs that are kept, newest first; a record that cannot be read is left out."""
    found = []
    for run in reversed(list_runs(folder)):
        try:
            document = json.loads((folder / run / RECORD).read_text())
            document.pop("version")
            document["arguments"] = tuple(document["arguments"])
            found.append(Record(**document))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
