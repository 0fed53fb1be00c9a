"""A recorded day through the same core once more: what guard would decide, under these limits.

Where the day's guard did the same, it goes on as recorded, lying hubs included. Where it did not,
what is decided is taken to have worked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fleetctl.guard.actions import Action, Blow, Facts, Inputs, Kill, Outcome, Sample, Stop, Switch
from fleetctl.guard.core import decide
from fleetctl.guard.dry import Pretence
from fleetctl.guard.journal import BEAT_SECONDS
from fleetctl.guard.layout import Layout
from fleetctl.guard.memory import Memory
from fleetctl.rack import InputError

TICK_SECONDS = 1.0
LONGEST_BEAT_SECONDS = 3 * BEAT_SECONDS
SAME_SECONDS = 120.0
"""What that day's guard did within so long counts as the same."""

type Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided when."""

    time: float
    action: Action


def read_day(path: Path) -> list[Line]:
    """The lines of a day. Raises InputError naming the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: cannot be read: {problem}") from None
    lines: list[Line] = []
    rows = text.splitlines()
    for number, row in enumerate(rows, 1):
        try:
            line = json.loads(row)
            float(line["time"])
        except (ValueError, TypeError, KeyError, RecursionError):
            if number == len(rows) and not text.endswith("\n"):
                break  # it is being written
            raise InputError(
                f"{path}:{number}: no line of guard's log; days are in guard/log of the "
                "rack's folder"
            ) from None
        lines.append(line)
    if not any("memory" in line for line in lines):
        raise InputError(f"{path}: it does not say how the day began; it is no log of guard")
    return lines


def replay(layout: Layout, lines: list[Line]) -> Iterator[Decision]:
    """The decisions of the day, in order. Raises InputError for lines that make no sense."""
    try:
        yield from _Replay(layout, lines).run()
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise InputError(f"the log is damaged: {type(problem).__name__}: {problem}") from problem


@dataclass
class _Replay:
    layout: Layout
    lines: list[Line]
    pretence: Pretence = field(init=False)
    done: list[Done] = field(default_factory=list)
    """What that day's guard did, and what came of it."""
    coming: list[tuple[float, Outcome]] = field(default_factory=list)

    def run(self) -> Iterator[Decision]:
        first = next(place for place, line in enumerate(self.lines) if "memory" in line)
        start, ahead = self.lines[first], self.lines[first + 1 :]
        self.pretence = Pretence(self.layout)
        self.done = list(_done(ahead))
        memory = Memory.from_document(start["memory"], start["time"])
        facts = {name: _facts(each) for name, each in start["facts"].items()}
        for name, each in facts.items():
            self.pretence.adopt(name, each)
        now = float(start["time"])
        for line in ahead:
            moment = float(line["time"])
            if moment - now > LONGEST_BEAT_SECONDS:
                now = moment  # nobody watched
            if line.get("starts"):
                memory = Memory.from_document(memory.document(), moment)
            while now + TICK_SECONDS < moment:
                now += TICK_SECONDS
                yield from self._step(memory, now, Inputs(facts=facts))
            now = max(now, moment)
            if "facts" in line and "memory" not in line:
                facts = facts | {name: _facts(each) for name, each in line["facts"].items()}
            yield from self._step(memory, now, _inputs(line, facts))

    def _step(self, memory: Memory, now: float, inputs: Inputs) -> Iterator[Decision]:
        due = [outcome for when, outcome in self.coming if when <= now]
        self.coming = [each for each in self.coming if each[0] > now]
        inputs = self.pretence.over(replace(inputs, outcomes=due), now)
        for action in decide(self.layout, memory, now, inputs):
            yield Decision(now, action)
            found = self._done_then(action, now)
            if found is None:
                self.pretence.begin(action, now)
            else:
                self.pretence.leave(action)
                self.coming.append((now + found.seconds, found.outcome))

    def _done_then(self, action: Action, now: float) -> Done | None:
        """Whether that day's guard did the same about then; each time counts once."""
        if not isinstance(action, Kill | Stop | Switch | Blow):
            return None
        on = action.on if isinstance(action, Switch | Blow) else None
        for place, each in enumerate(self.done):
            near = abs(each.time - now) <= SAME_SECONDS
            if near and (each.outcome.key, each.on) == (action.key, on):
                return self.done.pop(place)
        return None


@dataclass(frozen=True, slots=True)
class Done:
    """An action of that day: when, how long it took, what came of it."""

    time: float
    seconds: float
    on: bool | None
    outcome: Outcome


def _done(lines: list[Line]) -> Iterator[Done]:
    begun: dict[str, Line] = {}
    for line in lines:
        if (kind := line.get("do")) in _TARGETS:
            begun[f"{kind}:{line[_TARGETS[kind]]}"] = line
        elif "done" in line:
            key = f"{line['done']}:{line['of']}"
            if (began := begun.pop(key, None)) is not None:
                seconds = line["time"] - began["time"]
                outcome = Outcome(key, line["ok"], line["said"])
                yield Done(began["time"], seconds, began.get("on"), outcome)


_TARGETS = {"kill": "phone", "stop": "run", "switch": "outlet", "fan": "fan"}


def _inputs(line: Line, facts: Mapping[str, Facts]) -> Inputs:
    inputs = Inputs(facts=facts)
    if "sample" in line:
        return replace(inputs, samples={line["phone"]: Sample(**line["sample"])})
    if "problem" in line:
        return replace(inputs, problems={line["phone"]: line["problem"]})
    if "cleared" in line:
        return replace(inputs, clears={line["cleared"]: line["why"]})
    return inputs


def _facts(kept: Mapping[str, Any]) -> Facts:
    return Facts(kept["run"], frozenset(kept["drains"]))
