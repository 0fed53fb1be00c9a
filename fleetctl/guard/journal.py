"""One file a day: all that came in and all that was decided, as JSON lines.

A day begins with guard's memory at that time, so `guard --replay` can run it through the core
again. Samples are written when something moved, near the limits always, and once a minute.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from fleetctl.guard.actions import Action, Facts, Inputs, Sample, as_line
from fleetctl.guard.memory import Memory

DAYS = 7
"""So many days are kept."""

STEP_CELSIUS = 0.5
STEP_PERCENT = 1.0
QUIET_SECONDS = 60.0
BEAT_SECONDS = 10.0
"""At least so often a line is written while guard watches."""

NEAR_CELSIUS = 1.0
"""So far below the lowest limit every sample is written."""


class Journal:
    """`write` never fails: a full disk must not stop guard. `problem` says what went wrong."""

    def __init__(self, folder: Path, warn_celsius: float) -> None:
        self.problem: str | None = None
        self._folder = folder
        self._near = warn_celsius - NEAR_CELSIUS
        self._day = ""
        self._beat = 0.0
        self._file: IO[str] | None = None
        self._written: dict[str, Sample] = {}
        self._newest: dict[str, Sample] = {}
        self._facts: dict[str, Facts] = {}
        self._problems: dict[str, str] = {}

    def begin(self, now: float, memory: Memory) -> None:
        """A guard starts, with this memory."""
        self._append(now, [], memory, starts=True)

    def begins(self, now: float) -> bool:
        """Whether what is written now begins a day, or a file after trouble with the last."""
        return self._file is None or _day(now) != self._day

    def write(
        self, now: float, inputs: Inputs, actions: Iterable[Action], memory: Memory | None
    ) -> None:
        """The lines of one decision. `memory` is that after it, where that `begins` a day; without
        it nothing is written then."""
        lines = [*self._inputs(now, inputs), *(as_line(action, now) for action in actions)]
        if not lines and now - self._beat >= BEAT_SECONDS:
            lines = [{"time": now}]
        if lines:
            self._append(now, lines, memory)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _inputs(self, now: float, inputs: Inputs) -> Iterable[dict[str, Any]]:
        for name, why in inputs.clears.items():
            yield {"time": now, "cleared": name, "why": why}
        for outcome in inputs.outcomes:
            yield as_line(outcome, now)
        changed = {name: f for name, f in inputs.facts.items() if self._facts.get(name) != f}
        if changed:
            self._facts |= changed
            yield {"time": now, "facts": {name: _facts(f) for name, f in changed.items()}}
        for name, sample in inputs.samples.items():
            self._problems.pop(name, None)
            if self._is_news(name, sample):
                yield self._sample(now, name, sample)
            self._newest[name] = sample
        for name, problem in inputs.problems.items():
            last = self._newest.get(name)
            if last is not None and last is not self._written.get(name):
                yield self._sample(now, name, last)
            if self._problems.get(name) != problem:
                self._problems[name] = problem
                yield {"time": now, "phone": name, "problem": problem}

    def _sample(self, now: float, name: str, sample: Sample) -> dict[str, Any]:
        self._written[name] = sample
        return {"time": now, "phone": name, "sample": asdict(sample)}

    def _is_news(self, name: str, sample: Sample) -> bool:
        last = self._written.get(name)
        if last is None or sample.celsius >= self._near or last.celsius >= self._near:
            return True
        return (
            abs(sample.celsius - last.celsius) >= STEP_CELSIUS
            or abs((sample.percent or 0) - (last.percent or 0)) >= STEP_PERCENT
            or (sample.plugged, sample.charging, sample.health)
            != (last.plugged, last.charging, last.health)
            or sample.time - last.time >= QUIET_SECONDS
        )

    def _append(
        self, now: float, lines: list[dict[str, Any]], memory: Memory | None, starts: bool = False
    ) -> None:
        self._beat = now
        try:
            if self.begins(now):
                if memory is None:
                    return
                # What led to this memory belongs to the day that ends, if there is one.
                if self._file is not None:
                    self._put(lines)
                    lines = []
                self._open(_day(now))
                lines = [*lines, self._start(now, memory, starts)]
            self._put(lines)
            self.problem = None
        except OSError as error:
            self.problem = f"{self._folder}: {error.strerror}"
            self.close()

    def _start(self, now: float, memory: Memory, starts: bool) -> dict[str, Any]:
        facts = {name: _facts(each) for name, each in self._facts.items()}
        return {"time": now, "memory": memory.document(), "facts": facts, "starts": starts}

    def _open(self, day: str) -> None:
        self.close()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._day = day
        self._file = (self._folder / f"{day}.jsonl").open("a", encoding="utf-8")
        for old in sorted(self._folder.glob("????-??-??.jsonl"))[:-DAYS]:
            old.unlink(missing_ok=True)

    def _put(self, lines: Iterable[Mapping[str, Any]]) -> None:
        if self._file is not None:
            self._file.write("".join(json.dumps(_short(line)) + "\n" for line in lines))
            self._file.flush()


def _day(now: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(now))


def _facts(facts: Facts) -> dict[str, Any]:
    return {"run": facts.run, "drains": sorted(facts.drains)}


def _short(line: Mapping[str, Any]) -> dict[str, Any]:
    """Milliseconds are enough."""
    return {**line, "time": round(line["time"], 3)}
