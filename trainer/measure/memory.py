"""The largest batch whose training step fits into memory, found without running out of it.

A step is tried in a process of its own, whose address space is limited (RLIMIT_AS) to what it has
after loading torch and the model, plus the share of free memory that it may take: where that is
not enough, malloc fails in that process and nothing else happens. The kernel is never asked for
memory that the phone does not have, so neither its killer nor Android's wakes. Address space is at
least what is resident, so the limit errs on the small side.

The search is short: a step's memory grows in a straight line with its batch, so two small batches
tell where to look, and a bisection settles it.
"""

from __future__ import annotations

import json
import re
import select
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from trainer.errors import TrainerError
from trainer.formats import (
    KNOWN,
    LEAST_FOR_BATCH_NORM,
    ComputeCase,
    ComputeSpec,
    LargestBatch,
    MemorySearch,
    OptimizerSpec,
)

MOST_TRIALS = 10
_CLOSE_ENOUGH = 1.05
"""Two batches this near to each other need no trial between them."""

_TRIAL_LIMIT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Trial:
    """One step with one batch. `peak_bytes` is what it needed if it fitted, else None."""

    batch: int
    peak_bytes: int | None


@dataclass(frozen=True, slots=True)
class Found:
    """The largest batch that was tried and fitted (None: none did), and how many trials it took."""

    best: Trial | None
    trials: int
    bounded: bool


def search(attempt: Callable[[int], Trial], most: int, limit_bytes: int, least: int = 1) -> Found:
    """The largest batch from `least` to `most` that `attempt` says fits, within MOST_TRIALS
    attempts.

    `attempt` fits up to some batch and no further. Pure but for it.
    """
    fitted: list[Trial] = []
    too_large = most + 1
    trials = 0

    def try_one(batch: int) -> None:
        nonlocal too_large, trials
        trials += 1
        trial = attempt(batch)
        if trial.peak_bytes is None:
            too_large = min(too_large, batch)
        else:
            fitted.append(trial)

    try_one(min(least, most))
    if not fitted:
        return Found(None, trials, bounded=False)
    while trials < MOST_TRIALS:
        best = max(trial.batch for trial in fitted)
        if too_large - best <= 1 or (too_large <= most and too_large < best * _CLOSE_ENOUGH):
            break
        try_one(_next(fitted, best, too_large, limit_bytes))
    best_trial = max(fitted, key=lambda trial: trial.batch)
    return Found(best_trial, trials, bounded=best_trial.batch == most)


def _next(fitted: list[Trial], best: int, too_large: int, limit_bytes: int) -> int:
    """The batch to try: by the straight line through two that fitted, else by doubling or halving;
    always between the best one and the one that was too large."""
    guess = best * 4 if len(fitted) < 2 else _by_line(fitted, limit_bytes)
    if guess is None or not best < guess < too_large:
        guess = (best + too_large) // 2 if too_large <= best * 8 else best * 4
    return min(max(guess, best + 1), too_large - 1)


def _by_line(fitted: list[Trial], limit_bytes: int) -> int | None:
    first, *_, last = sorted(fitted, key=lambda trial: trial.batch)
    grown = (last.peak_bytes or 0) - (first.peak_bytes or 0)
    if grown <= 0:
        return None
    per_sample = grown / (last.batch - first.batch)
    return int(last.batch + (limit_bytes - (last.peak_bytes or 0)) / per_sample)


def largest_batch(
    case: ComputeCase, optimizer: OptimizerSpec, wish: MemorySearch, device: str
) -> LargestBatch | str:
    """The largest batch of the case's model here; a sentence where it cannot be found out."""
    limit = allowance_bytes(wish)
    if limit is None:
        return "how much memory is free cannot be read, so no batch was tried"
    try:
        with _Trials(ComputeSpec(("here",), (case,), optimizer, 0.0, device), limit) as trials:
            found = search(trials.attempt, wish.most, limit, _least(case))
    except TrialError as error:
        return f"{case.model.name}: {error}"
    return LargestBatch(
        model=case.model,
        input=case.input,
        batch=found.best.batch if found.best else 0,
        peak_bytes=(found.best.peak_bytes or 0) if found.best else 0,
        limit_bytes=limit,
        trials=found.trials,
        bounded=found.bounded,
    )


def _least(case: ComputeCase) -> int:
    """BatchNorm refuses a batch of one where the image has become one pixel, whatever memory
    there is."""
    known = KNOWN.get(case.model.name)
    return LEAST_FOR_BATCH_NORM if known is not None and known.batch_norm else 1


class TrialError(TrainerError):
    """A step failed, and not for want of memory."""


class _Trials:
    """The process that makes trials, with a step's memory limited."""

    def __init__(self, spec: ComputeSpec, limit_bytes: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trainer.measure.trial", str(limit_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._say(spec.to_json())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def attempt(self, batch: int) -> Trial:
        """Try one batch. Raises TrialError."""
        self._say(str(batch))
        assert self._process.stdout is not None  # noqa: S101
        ready, _, _ = select.select([self._process.stdout], [], [], _TRIAL_LIMIT_SECONDS)
        if not ready:
            raise TrialError(f"batch {batch} took more than {_TRIAL_LIMIT_SECONDS:.0f} s")
        line = self._process.stdout.readline()
        try:
            told = json.loads(line)
        except ValueError:
            raise TrialError(f"batch {batch}: the trial ended without an answer") from None
        if "problem" in told:
            raise TrialError(f"batch {batch}: {told['problem']}")
        return Trial(batch, told["peak_bytes"])

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None  # noqa: S101
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise TrialError("the process for trials did not start") from None


_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def allowance_bytes(
    wish: MemorySearch, meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP
) -> int | None:
    """How much more memory a step may take: the share of what is free, in the whole phone and in
    this process's group where it has a limit of its own."""
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo.read_text(), re.MULTILINE)
    except OSError:
        return None
    if not found:
        return None
    free = [int(found[1]) * 1024]
    try:
        limit, used = (
            (cgroup / name).read_text().strip() for name in ("memory.max", "memory.current")
        )
        free += [int(limit) - int(used)] if limit.isdigit() else []
    except (OSError, ValueError):
        pass
    allowed = int(min(free) * wish.share)
    return allowed if wish.limit_bytes is None else min(allowed, wish.limit_bytes)
