"""A world in which what was decided has worked, for `--dry-run` and for replays. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fleetctl.guard.actions import (
    DRAIN,
    Action,
    Blow,
    Call,
    Drain,
    Facts,
    Inputs,
    Kill,
    Outcome,
    Sample,
    Stop,
    Switch,
    Undrain,
)
from fleetctl.guard.layout import Layout
from fleetctl.power.outlets import LATCH_DRAIN

TAKES_SECONDS = 1.0


@dataclass
class Pretence:
    """Lays over what really comes in what would have come, had guard's actions been done."""

    layout: Layout
    _outlets: dict[str, bool] = field(default_factory=dict)
    _stopped: set[str] = field(default_factory=set)
    _drains: dict[str, set[str]] = field(default_factory=dict)
    _coming: list[tuple[float, Outcome]] = field(default_factory=list)
    _last: dict[str, Sample] = field(default_factory=dict)

    def begin(self, action: Action, now: float) -> None:
        """Have done what was decided."""
        match action:
            case Drain():
                self._drains.setdefault(action.phone, set()).add(action.who)
            case Undrain():
                self._drains.setdefault(action.phone, set()).discard(action.who)
            case Kill() | Switch() | Blow() | Call():
                self._coming.append((now + TAKES_SECONDS, Outcome(action.key, True, "pretended")))
            case Stop():
                self._stopped.add(action.run)
        if isinstance(action, Switch):
            self._outlets[action.outlet] = action.on

    def adopt(self, name: str, facts: Facts) -> None:
        """Begin with the drains that guard has set already."""
        self._drains[name] = set(facts.drains & {DRAIN, LATCH_DRAIN})

    def leave(self, action: Action) -> None:
        """Pretend nothing any more about what an action that was really done is about."""
        if isinstance(action, Switch):
            self._outlets.pop(action.outlet, None)

    def over(self, inputs: Inputs, now: float) -> Inputs:
        """The inputs of this moment."""
        self._last |= inputs.samples
        due = [outcome for when, outcome in self._coming if when <= now]
        self._coming = [each for each in self._coming if each[0] > now]
        samples = {name: self._sample(name, sample) for name, sample in inputs.samples.items()}
        for outcome in due:
            # Its phones notice at once, whenever they are asked next.
            kind, _, target = outcome.key.partition(":")
            for name in self.layout.outlets[target].phones if kind == "switch" else ():
                if name in self._last:
                    samples[name] = self._sample(name, replace(self._last[name], time=now + 1e-3))
        return replace(
            inputs,
            samples=samples,
            outcomes=[*inputs.outcomes, *due],
            facts=self._facts(inputs.facts),
        )

    def _sample(self, name: str, sample: Sample) -> Sample:
        outlet = self.layout.feeder.get(name, "")
        if outlet not in self._outlets:
            return sample
        return replace(sample, plugged=self._outlets[outlet])

    def _facts(self, facts: Mapping[str, Facts]) -> dict[str, Facts]:
        own = {DRAIN, LATCH_DRAIN}
        return {
            name: Facts(
                None if each.run in self._stopped else each.run,
                frozenset((each.drains - own) | self._drains.get(name, set())),
            )
            for name in self.layout.phones
            for each in [facts.get(name, Facts())]
        }
