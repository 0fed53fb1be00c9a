"""Guard's folder on the controller: its memory, its lock, its log, and what persons cleared."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from fleetctl.errors import ExitCode, FleetError
from fleetctl.guard.memory import Memory
from fleetctl.rack import InputError, RackPaths
from fleetctl.rack.files import write_atomic

JITTER_SECONDS = 60.0


class GuardRuns(FleetError):
    """Another guard watches this rack."""

    exit_code: ClassVar[ExitCode] = ExitCode.HELD


class Kept:
    """`guard/` in the rack's folder."""

    def __init__(self, paths: RackPaths) -> None:
        self.folder = paths.dir / "guard"
        self.log = self.folder / "log"
        self._memory = self.folder / "memory.json"
        self._lock = self.folder / "lock"
        self._clears = self.folder / "clears"

    def make(self) -> None:
        for folder in (self.folder, self.log, self._clears):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the one guard of the rack. Raises GuardRuns."""
        self.make()
        with self._lock.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise GuardRuns(
                    f"another guard (process {self.owner() or 'unknown'}) watches this rack; "
                    "`fleetctl guard status` shows what it does"
                ) from None
            with suppress(OSError):  # a full disk: whose lock it is, nobody need know
                file.truncate(0)
                os.write(file.fileno(), str(os.getpid()).encode())
            try:
                yield
            finally:
                with suppress(OSError):
                    file.truncate(0)

    def owner(self) -> int | None:
        """The process that is the guard now; None if there is none."""
        try:
            with self._lock.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    text = file.read(32).strip()
                    return int(text) if text.isdigit() else 0
        except FileNotFoundError:
            return None
        return None

    def load(self, now: float) -> Memory | None:
        """What guard knew when it ended; None if it never ran. Raises InputError for damage."""
        try:
            text = self._memory.read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as problem:
            raise InputError(f"{self._memory}: {problem}") from None
        try:
            return Memory.from_json(text, now)
        except InputError as problem:
            raise InputError(f"{self._memory}: {problem}") from None

    def save(self, memory: str) -> None:
        """Keep what `Memory.to_json` gave. Raises OSError; the old one stays then."""
        write_atomic(self._memory, memory, mode=0o600)

    def saved(self, now: float) -> float | None:
        """When guard last kept what it knows; None if it never did.

        By this machine's clock, as `now` is: guard's own goes on evenly when that is set. 0 for a
        time well after `now`: a guard that runs keeps it anew within seconds.
        """
        try:
            moment = self._memory.stat().st_mtime
        except OSError:
            return None
        return min(moment, now) if moment <= now + JITTER_SECONDS else 0.0

    def put_aside(self) -> Path:
        """Move a damaged memory out of the way."""
        aside = self._memory.with_suffix(f".damaged-{int(time.time())}")
        self._memory.replace(aside)
        return aside

    def ask_clear(self, phone: str, who: str, why: str) -> Path:
        """Leave word for the guard that a person has cleared a phone."""
        self.make()
        note = self._clears / f"{phone}.json"
        write_atomic(note, json.dumps({"who": who, "why": why}) + "\n", mode=0o600)
        return note

    def clears(self) -> dict[str, str]:
        """Take what persons have left: phone -> who and why."""
        found: dict[str, str] = {}
        for note in sorted(self._clears.glob("*.json")):
            with suppress(OSError, ValueError, TypeError, KeyError):
                text = note.read_bytes()
                note.unlink()  # first: one that stays would clear again and again
                kept = json.loads(text)
                found[note.stem] = f"{kept['why']} ({kept['who']})"
        return found
