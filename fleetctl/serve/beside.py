"""What is not of the service and yet told by its exporter: guard, and runs that failed lately."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleetctl.guard.kept import Kept
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import InputError, RackPaths

LOOK_SECONDS = 10.0
"""Between two looks."""

RECENT_SECONDS = 3600.0
"""So long a failed run is told."""

CAUSES = ("not-finite", "other")


@dataclass(frozen=True, slots=True)
class GuardSeen:
    """What guard has kept. `decided`: when it last decided anything, by this machine's clock,
    seconds since the epoch."""

    decided: float
    calls: Mapping[str, int]
    """What persons are called for (a section of the runbook) -> so many phones."""
    latched: int


@dataclass(frozen=True, slots=True)
class Beside:
    """`guard` is None where none ever watched the rack; `failed`: cause -> runs."""

    guard: GuardSeen | None = None
    failed: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Watch:
    """Looks again only when it is time; a run that is over is read once."""

    paths: RackPaths
    _seen: Beside = field(default_factory=Beside)
    _looked: float = float("-inf")
    _over: dict[str, tuple[float, str | None]] = field(default_factory=dict)
    """Run -> when it ended, and the cause of its failure."""

    def look(self, now: float | None = None) -> Beside:
        moment = time.time() if now is None else now
        if not 0 <= moment - self._looked < LOOK_SECONDS:
            self._looked = moment
            self._seen = Beside(guard_seen(self.paths, moment), self._failed(moment))
        return self._seen

    def _failed(self, now: float) -> Mapping[str, int]:
        names = _names(self.paths.runs)
        self._over = {name: end for name, end in self._over.items() if name in names}
        for name in names - self._over.keys():
            summary = RunFolder(self.paths.runs / name).summary()
            if summary.over:
                failed = summary.state == "failed"
                self._over[name] = (summary.ended or 0.0, cause(summary.reason) if failed else None)
        recent = [why for ended, why in self._over.values() if why and now - ended < RECENT_SECONDS]
        return Counter(recent)


def cause(reason: str | None) -> str:
    """One of CAUSES, from what the run ended with."""
    return "not-finite" if "not finite" in (reason or "") else "other"


def guard_seen(paths: RackPaths, now: float) -> GuardSeen | None:
    """None where guard never ran, or its memory is damaged: it then puts that aside itself."""
    try:
        memory, saved = Kept(paths).load(now), Kept(paths).saved(now)
    except InputError:
        return None
    if memory is None or saved is None:
        return None
    calls = Counter(call.what for call in memory.calls.values())
    latched = sum(phone.latch is not None for phone in memory.phones.values())
    return GuardSeen(saved, calls, latched)


def _names(runs: Path) -> set[str]:
    return {path.name for path in runs.iterdir()} if runs.exists() else set()
