"""When to look for the phone that a silent run waits for, and what a look proves. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fleetctl.jobs.probes import Blame, RankLook
from fleetctl.remote import PhoneError

GLANCE_SECONDS = 10.0
"""So long after the last word, and each time again, ranks are looked at, however slow the run is:
a rank that is stopped is proof."""

REPORT_SECONDS = 0.5
"""How much later than its iteration a rank may note where it is; as trainer.report has it."""

type Due = Literal["glance", "deadline"]


@dataclass(slots=True)
class Silence:
    """One silence after another of one run."""

    deadlines: int = 0
    """That have passed in this silence."""
    _looked: float = 0.0
    _behind: frozenset[str] = frozenset()

    def due(self, silent_seconds: float, limit_seconds: float) -> Due | None:
        """What to look for now, if at all: at a deadline, for whatever may be wrong."""
        if silent_seconds < self._looked:
            self.deadlines, self._looked, self._behind = 0, 0.0, frozenset()
        if silent_seconds >= limit_seconds * (self.deadlines + 1):
            self.deadlines += 1
            self._looked = silent_seconds
            return "deadline"
        if silent_seconds >= self._looked + GLANCE_SECONDS:
            self._looked = silent_seconds
            return "glance"
        return None

    def judge(
        self,
        due: Due,
        looks: Mapping[str, RankLook],
        errors: Mapping[str, PhoneError],
        iteration_seconds: float | None,
    ) -> dict[str, Blame]:
        """Phones that keep the run from going on, each with the reason; none if all seem to work.

        A glance blames nobody who cannot be asked: their connections are watched.
        """
        if found := stopped(looks):
            return {**found}
        if due == "glance":
            return {}
        if away := {phone: why for phone, why in errors.items() if not why.reached}:
            return {**away}
        if found := gone(looks):
            return {**found}
        late = behind(looks, iteration_seconds) or not_ready(looks)
        # Twice the same ones: a rank may just be writing a large checkpoint.
        again = {phone: why for phone, why in late.items() if phone in self._behind}
        self._behind = frozenset(late)
        return {**again}


def stopped(looks: Mapping[str, RankLook]) -> dict[str, str]:
    """Ranks that are stopped, though their phone answers."""
    return {
        phone: f"{phone} answers, but its rank is stopped (frozen by Android); "
        "check the freezer setting and the wake lock"
        for phone, look in looks.items()
        if look.states & {"T", "t"}
    }


def gone(looks: Mapping[str, RankLook]) -> dict[str, str]:
    """Ranks that are not there, though their phone answers."""
    return {
        phone: f"{phone} answers, but its rank is gone"
        for phone, look in looks.items()
        if not look.states
    }


def not_ready(looks: Mapping[str, RankLook]) -> dict[str, str]:
    """Before the first iteration: the few ranks that most others wait for."""
    late = [phone for phone, look in looks.items() if not look.ready]
    if 2 * len(late) > len(looks) or any(look.iteration is not None for look in looks.values()):
        return {}
    return {
        phone: f"{phone} answers and its rank runs, but has not got ready for the first "
        "iteration; the others have, and wait for it: restart the phone"
        for phone in late
    }


def behind(looks: Mapping[str, RankLook], iteration_seconds: float | None) -> dict[str, str]:
    """Ranks that have finished fewer iterations than the others, which wait for them.

    Ranks note where they are every now and then, so in a fast run some may seem to be behind.
    """
    known = {phone: look.iteration for phone, look in looks.items() if look.iteration is not None}
    if not known or iteration_seconds is None:
        return {}
    newest = max(known.values())
    leeway = math.floor(REPORT_SECONDS / max(iteration_seconds, 1e-3))
    late = {phone: at for phone, at in known.items() if at < newest - leeway}
    return {
        phone: f"{phone} answers and its rank runs, but stands still in iteration {at + 1}; "
        f"the others have finished {newest} and wait for it: restart the phone"
        for phone, at in late.items()
    }
