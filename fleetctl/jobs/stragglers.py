"""Phones that compute slower than the others, above all those that did not before. Pure.

Only the time that a phone computes counts, for each of its samples: in the synchronous step
everybody else waits for the slowest, and that wait is nobody's fault but its.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from trainer.formats import Progress

SLOWER_THAN_FASTEST = 1.3
SLOWER_THAN_BEFORE = 1.2
"""One that has become so much slower is named as soon as it is so much behind the fastest too."""

LOOKS = 5
"""Of which the median counts, so that a checkpoint or one hiccup is not a habit."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """What is said of a slow phone. Factors are of seconds per sample."""

    phone: str
    fastest: str
    of_fastest: float
    of_own_best: float

    def sentence(self, temperature_celsius: float | None) -> str:
        heat = (
            "its temperature is not known"
            if temperature_celsius is None
            else f"its battery has {temperature_celsius:.0f} °C"
        )
        before = (
            f", and {self.of_own_best:.1f} times as long as at its own best (throttled?)"
            if self.of_own_best >= SLOWER_THAN_BEFORE
            else ", as it has done from the start"
        )
        return (
            f"{self.phone} is a straggler: it computes {self.of_fastest:.1f} times as long for a "
            f"sample as {self.fastest}{before}; {heat}. The other phones wait for it"
        )


@dataclass(slots=True)
class _Speed:
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=LOOKS))
    best: float = float("inf")
    iteration: int = -1

    @property
    def seconds(self) -> float | None:
        """Per sample; None until there are enough looks."""
        return statistics.median(self.recent) if len(self.recent) == LOOKS else None


class Stragglers:
    """Looks at the ranks' progress add up; each phone is named once, and again if it worsens."""

    def __init__(self, samples: Mapping[str, int]) -> None:
        """`samples` of each phone in an iteration, where its progress does not say."""
        self._samples = samples
        self._speeds = {phone: _Speed() for phone, count in samples.items() if count}
        self._named: dict[str, float] = {}

    def take(self, looks: Mapping[str, Progress]) -> list[Straggler]:
        """Account for one look; returns the phones to be named now."""
        for phone, progress in looks.items():
            speed = self._speeds.get(phone)
            if speed is None or progress.iteration <= speed.iteration:
                continue
            speed.iteration = progress.iteration
            samples = self._samples[phone] if progress.samples is None else progress.samples
            if not samples:
                continue  # it pauses
            speed.recent.append(progress.compute_seconds / samples)
            if speed.seconds is not None:
                speed.best = min(speed.best, speed.seconds)
        known = {p: s.seconds for p, s in self._speeds.items() if s.seconds is not None}
        if len(known) < 2:
            return []
        fastest = min(known, key=known.__getitem__)
        return [
            found
            for phone, seconds in known.items()
            if (found := self._judge(phone, seconds, fastest, known[fastest])) is not None
        ]

    def _judge(
        self, phone: str, seconds: float, fastest: str, fastest_seconds: float
    ) -> Straggler | None:
        factor = seconds / max(fastest_seconds, 1e-9)
        own = seconds / max(self._speeds[phone].best, 1e-9)
        slowed = own >= SLOWER_THAN_BEFORE
        limit = SLOWER_THAN_BEFORE if slowed else SLOWER_THAN_FASTEST
        if factor < limit or factor < 1.5 * self._named.get(phone, 0.0):
            return None
        self._named[phone] = factor
        return Straggler(phone, fastest, factor, own)
