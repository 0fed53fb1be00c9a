"""What is not of the service and yet told by its exporter: guard, and runs that failed lately."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fleetctl.errors import FleetError
from fleetctl.guard.kept import Kept
from fleetctl.jobs.runs import PLAN_FILE, RunFolder
from fleetctl.rack import InputError, RackPaths

LOOK_SECONDS = 10.0
"""Between two looks."""

RECENT_SECONDS = 3600.0
"""So long a failed run is told."""

UNDER_WAY = ("running", "recovering")

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
    """`guard` is None where none ever watched the rack, or nobody knows; `failed`: cause -> runs,
    and `training`: runs of the trainer that have begun and are not over, both None where runs could
    not be looked at, for the reason `trouble`."""

    guard: GuardSeen | None = None
    failed: Mapping[str, int] | None = None
    training: Sequence[str] | None = None
    trouble: str | None = None


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
            guard = guard_seen(self.paths, moment)
            try:
                self._seen = Beside(guard, *self._runs(moment))
            except (FleetError, OSError) as problem:
                self._seen = Beside(guard, trouble=str(problem))
        return self._seen

    def _runs(self, now: float) -> tuple[Mapping[str, int], Sequence[str]]:
        """What failed lately, and what trains."""
        names = _names(self.paths.runs)
        self._over = {name: end for name, end in self._over.items() if name in names}
        training = []
        for name in sorted(names - self._over.keys()):
            run = RunFolder(self.paths.runs / name)
            summary = run.summary()
            if summary.over:
                failed = summary.state == "failed"
                self._over[name] = (summary.ended or now, cause(summary.reason) if failed else None)
            elif summary.state in UNDER_WAY and (run.path / PLAN_FILE).exists():
                training.append(name)
        recent = [why for ended, why in self._over.values() if why and now - ended < RECENT_SECONDS]
        return Counter(recent), training


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
