"""A guard's core on a desk: phones say what a test wants, and hubs do what they are told."""

from __future__ import annotations

from typing import Any

from fleetctl.guard.actions import (
    Action,
    Blow,
    Call,
    Drain,
    Facts,
    Inputs,
    Outcome,
    Sample,
    Switch,
    Undrain,
)
from fleetctl.guard.core import decide
from fleetctl.guard.layout import Layout
from fleetctl.guard.memory import Memory
from fleetctl.guard.words import sentence
from fleetctl.rack import GuardLimits, Outlet

PHONES = ("phone001", "phone002", "phone003")
OUTLETS = {
    "a": Outlet("a", ("phone001",), ("hub", "{state}")),
    "strip": Outlet("strip", ("phone002", "phone003"), ("hub", "{state}")),
}


class Desk:
    """`lying` outlets stay live; `mute` phones do not answer; `full` ones
    take no charge; `broken` hubs fail; `deaf` phones cannot be killed. `supervised`:
    whether runs go on without a phone whose rank was killed; `stops`: whether runs can be stopped;
    `reachable`: whether the command that calls a person ends well, None for one that hangs."""

    def __init__(
        self,
        outlets: dict[str, Outlet] | None = None,
        fans: dict[str, Outlet] | None = None,
        percent: tuple[float, float, float] = (50.0, 50.0, 50.0),
        **limits: Any,
    ) -> None:
        used = OUTLETS if outlets is None else outlets
        self.layout = Layout.of(PHONES, used, GuardLimits(**limits), fans)
        self.blows = dict.fromkeys(self.layout.fans, True)
        self.now = 1_000_000.0
        self.memory = Memory(self.now)
        self.celsius = dict.fromkeys(PHONES, 30.0)
        self.percent = dict(zip(PHONES, percent, strict=True))
        self.health = dict.fromkeys(PHONES, "GOOD")
        self.runs: dict[str, str] = {}
        self.drains: dict[str, set[str]] = {name: set() for name in PHONES}
        self.live = dict.fromkeys(self.layout.outlets, True)
        self.lying: set[str] = set()
        self.mute: set[str] = set()
        self.full: set[str] = set()
        self.broken: set[str] = set()
        self.deaf: set[str] = set()
        self.stops = True
        self.obeys = True
        self.supervised = True
        self.reachable: bool | None = True
        self.journal: Any = None
        self.log: list[tuple[float, Action]] = []
        self._coming: list[Outcome] = []
        self.go(1)

    def go(self, seconds: float, **clears: str) -> list[str]:
        """Let seconds pass; what was decided meanwhile, in words."""
        before = len(self.log)
        end = self.now + seconds
        while self.now < end:
            self.now += 1.0 if seconds <= 600 else 10.0
            outcomes, self._coming = self._coming, []
            inputs = Inputs(
                samples={name: self._sample(name) for name in PHONES if name not in self.mute},
                facts={
                    name: Facts(self.runs.get(name), frozenset(self.drains[name]))
                    for name in PHONES
                },
                outcomes=outcomes,
                problems=dict.fromkeys(self.mute, "no answer"),
                clears=clears,
            )
            clears = {}
            actions = decide(self.layout, self.memory, self.now, inputs)
            if self.journal is not None:
                self.journal.write(self.now, inputs, actions, self.memory)
            for action in actions:
                self.log.append((self.now, action))
                self._obey(action)
        return [sentence(action) for _, action in self.log[before:]]

    def since(self, seconds: float) -> list[Action]:
        return [action for when, action in self.log if when > self.now - seconds]

    def said(self, kind: type[Action]) -> list[Any]:
        """All actions of a kind so far."""
        return [action for _, action in self.log if isinstance(action, kind)]

    def restart(self) -> None:
        self.memory = Memory.from_json(self.memory.to_json(), self.now)
        self._coming = []

    def _sample(self, name: str) -> Sample:
        outlet = self.layout.feeder.get(name)
        plugged = True if outlet is None else self.live[outlet]
        return Sample(
            self.now,
            self.celsius[name],
            plugged,
            self.percent[name],
            plugged and name not in self.full,
            self.health[name],
        )

    def _obey(self, action: Action) -> None:
        if not self.obeys:
            return
        match action:
            case Drain():
                self.drains[action.phone].add(action.who)
            case Undrain():
                self.drains[action.phone].discard(action.who)
            case Switch():
                ok = action.outlet not in self.broken
                if ok and action.outlet not in self.lying:
                    self.live[action.outlet] = action.on
                self._coming.append(Outcome(action.key, ok, "ok" if ok else "exit code 1"))
            case Call():
                if (ok := self.reachable) is not None:
                    self._coming.append(Outcome(action.key, ok, "" if ok else "no route"))
            case Blow():
                ok = action.fan not in self.broken
                if ok:
                    self.blows[action.fan] = action.on
                self._coming.append(Outcome(action.key, ok, "ok" if ok else "exit code 1"))
            case _ if action.kind == "kill":
                reached = action.phone not in self.mute | self.deaf
                if reached and self.supervised:
                    self.runs.pop(action.phone, None)
                self._coming.append(Outcome(action.key, reached, "" if reached else "no answer"))
            case _ if action.kind == "stop":
                if self.stops:
                    self.runs = {name: run for name, run in self.runs.items() if run != action.run}
                self._coming.append(Outcome(action.key, self.stops, "" if self.stops else "no"))
