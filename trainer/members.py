"""Who computes how much while a run goes on: a hot phone's share shrinks, or pauses. Pure.

All ranks take the same readings, which the exchange of each iteration brings along, and so come to
the same decision at the same iteration: nobody has to be asked, and nothing starts anew. The global
batch stays as large as the plan has it, so training is what it was up to the order of sums.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from trainer.shares import bounded_shares

NUMBERS = 4
"""That a rank tells of itself with each exchange."""

WINDOW_SECONDS = 10.0
LEAST_LOOKS = 3
"""Speeds are medians over so long, and over at least so many iterations."""

STALE_LOOKS = 2
"""The first iterations after a change still tell of the time before it, or of full caches."""

LATE = 0.04
"""A phone that heat slows is given less when it is so much later than the others."""

GAIN = 0.02
"""And when all together are so much faster by it, as far as the present speeds tell."""

NEARLY = 0.9
"""A phone that is cool again, and could do so much of its old share in time, gets all of it."""

FIRST_HOLD_SECONDS, LONGEST_HOLD_SECONDS = 30.0, 900.0
"""So long a share stays small; twice as long each time that heat has slowed the phone again."""

RELIEF_CELSIUS = 3.0
"""By so much a paused phone must have cooled."""

UNSEEN_SECONDS = 180.0
"""A paused phone of which nobody has known for so long how warm it is, is told of."""

WARM_BELOW_PAUSE_CELSIUS = 5.0

_ZERO_CELSIUS_KELVIN = 273.15


@dataclass(frozen=True, slots=True)
class Reading:
    """One rank's last iteration. `slowed`: its Android takes it for hot, or holds it back."""

    compute_seconds: float
    battery_celsius: float | None = None
    slowed: bool = False

    def numbers(self, shares_mark: int) -> tuple[float, ...]:
        """For the exchange, which has no word for what is not known."""
        kelvin = 0.0 if self.battery_celsius is None else self.battery_celsius
        kelvin += _ZERO_CELSIUS_KELVIN if self.battery_celsius is not None else 0.0
        return (self.compute_seconds, kelvin, float(self.slowed), float(shares_mark))

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Reading:
        seconds, kelvin, slowed, _ = numbers
        celsius = round(kelvin - _ZERO_CELSIUS_KELVIN, 1) if kelvin > 0 else None
        return cls(seconds, celsius, slowed > 0)


@dataclass(frozen=True, slots=True)
class Change:
    """Samples of each rank from the next iteration on; `why` of each rank that is the reason, or
    that stays as it is for a new one."""

    shares: tuple[int, ...]
    why: dict[int, str]


@dataclass(slots=True)
class _Adjusted:
    """A rank whose share is its own, not its part of the plan's."""

    samples: int
    since: float
    hold_seconds: float
    paused: bool = False
    unseen_since: float | None = None
    """Paused, and nobody knows how warm it is. Infinite: that has been told."""


@dataclass(slots=True)
class _Window:
    """What the ranks took since the last decision."""

    stale: int = STALE_LOOKS
    whole_seconds: float = 0.0
    seconds: list[list[float]] = field(default_factory=list)

    def take(self, seconds: list[float]) -> None:
        if self.stale:
            self.stale -= 1
        else:
            self.seconds.append(seconds)
            self.whole_seconds += max(seconds)

    @property
    def is_full(self) -> bool:
        return len(self.seconds) >= LEAST_LOOKS and self.whole_seconds >= WINDOW_SECONDS

    def medians(self) -> list[float]:
        return [statistics.median(rank) for rank in zip(*self.seconds, strict=True)]


class Members:
    """The shares of a run's ranks. `least`: the fewest samples that a rank can compute with."""

    def __init__(self, plan: Sequence[int], least: int, pause_celsius: float) -> None:
        self._plan, self._least, self._pause_celsius = tuple(plan), least, pause_celsius
        self.shares = self._plan
        self._batch = sum(plan)
        self._own: dict[int, _Adjusted] = {}
        self._holds: dict[int, float] = {}
        self._elapsed_seconds = 0.0
        self._window = _Window()

    @property
    def mark(self) -> int:
        """A number that tells these shares from others; exact in a float32."""
        number = 0
        for share in self.shares:
            number = (number * 1_000_003 + share + 1) % 16_777_213
        return number

    def take(self, readings: Sequence[Reading]) -> Change | None:
        """Account for an iteration; returns what changes with the next one."""
        seconds = [reading.compute_seconds for reading in readings]
        self._elapsed_seconds += max(seconds)
        self._window.take(seconds)
        why = self._pause(readings) | self._resume(readings)
        if not why and self._window.is_full:
            why = self._balance(readings)
            self._window = _Window(stale=0)
        shares = tuple(self._deal(self._own)) if why else self.shares
        unseen = self._unseen(readings)
        if shares == self.shares:
            return Change(shares, unseen) if unseen else None
        self.shares, self._window = shares, _Window()
        return Change(shares, why | unseen)

    # --- too hot ---

    def _pause(self, readings: Sequence[Reading]) -> dict[int, str]:
        """The hottest first, and as few that at least half of the rack's work is done by others."""
        hot = {
            rank: celsius
            for rank, reading in enumerate(readings)
            if (celsius := reading.battery_celsius) is not None
            and celsius >= self._pause_celsius
            and self._plan[rank]
            and not self._is_paused(rank)
        }
        why = {}
        for rank in sorted(hot, key=lambda rank: (-hot[rank], rank)):
            resting = sum(self._plan[r] for r in self._own if self._is_paused(r))
            if 2 * (resting + self._plan[rank]) > self._batch:
                break
            self._shrink(rank, self.shares[rank], paused=True)
            why[rank] = (
                f"its battery has {hot[rank]:.1f} °C (limit {self._pause_celsius:g}): it pauses"
            )
        return why

    def _resume(self, readings: Sequence[Reading]) -> dict[int, str]:
        """With half of what it had before; the rest when it proves to be in time."""
        why = {}
        for rank, own in self._own.items():
            celsius = readings[rank].battery_celsius
            if own.paused and celsius is not None:
                if celsius > self._pause_celsius - RELIEF_CELSIUS:
                    continue
                own.paused, own.since = False, self._elapsed_seconds
                own.samples = max(self._least, own.samples // 2)
                why[rank] = f"its battery has cooled to {celsius:.1f} °C: {own.samples} samples"
        return why

    def _unseen(self, readings: Sequence[Reading]) -> dict[int, str]:
        """A battery that was too hot gets no work until it is seen to be cool, however long that
        takes; but the run shall not lose a phone without a word."""
        why, now = {}, self._elapsed_seconds
        for rank, own in self._own.items():
            if not own.paused or readings[rank].battery_celsius is not None:
                own.unseen_since = None
            elif own.unseen_since is None:
                own.unseen_since = now
            elif now - own.unseen_since >= UNSEEN_SECONDS:
                own.unseen_since = math.inf
                why[rank] = (
                    "its battery does not tell its temperature any more: it stays paused until it "
                    "does"
                )
        return why

    # --- slow by heat ---

    def _balance(self, readings: Sequence[Reading]) -> dict[int, str]:
        speeds = {
            rank: share / seconds
            for rank, (share, seconds) in enumerate(
                zip(self.shares, self._window.medians(), strict=True)
            )
            if share and seconds > 0
        }
        slowed = {rank for rank in speeds if self._is_warm(readings[rank])}
        due = self._in_time(speeds, slowed)
        return self._take_away(speeds, due, readings) or self._give_back(speeds, due, slowed)

    def _in_time(self, speeds: dict[int, float], slowed: set[int]) -> dict[int, float]:
        """How many samples each rank that heat slows, or has slowed, could compute while the
        slowest of the others computes what is then left to it; these keep their parts of the plan
        among them."""
        own = {rank for rank in speeds if rank in self._own or rank in slowed}
        others = [rank for rank in speeds if rank not in own]
        if not others:
            return {rank: self._batch * v / sum(speeds.values()) for rank, v in speeds.items()}
        pace = max(self._plan[rank] / speeds[rank] for rank in others)
        theirs = sum(self._plan[rank] for rank in others)
        able = {rank: min(speeds[rank] * pace, self._plan[rank]) for rank in own}
        part = self._batch / (theirs + sum(able.values()))
        return {rank: samples * part for rank, samples in able.items()}

    def _take_away(
        self, speeds: dict[int, float], due: dict[int, float], readings: Sequence[Reading]
    ) -> dict[int, str]:
        late = {
            rank: max(self._least, int(samples))
            for rank, samples in due.items()
            if self.shares[rank] > max(self._least, samples * (1 + LATE))
        }
        less = {rank: _Adjusted(samples, 0.0, 0.0) for rank, samples in late.items()}
        now = self._slowest(self.shares, speeds)
        then = self._slowest(self._deal({**self._own, **less}), speeds)
        if not late or then > (1 - GAIN) * now:
            return {}
        why = {}
        for rank, samples in late.items():
            celsius = readings[rank].battery_celsius
            heat = "" if celsius is None else f", its battery has {celsius:.1f} °C"
            factor = self.shares[rank] / due[rank]
            why[rank] = (
                f"heat slows it: {factor:.2f} times as long as the others{heat}: "
                f"{samples} samples instead of {self.shares[rank]}"
            )
            self._shrink(rank, samples)
        return why

    def _give_back(
        self, speeds: dict[int, float], due: dict[int, float], slowed: set[int]
    ) -> dict[int, str]:
        trial = dict(self._own)
        why = {}
        for rank, own in self._own.items():
            held = self._elapsed_seconds - own.since < own.hold_seconds
            if own.paused or held or rank not in due:
                continue
            whole = self._whole(rank)
            if rank not in slowed and due[rank] >= NEARLY * whole:
                del trial[rank]
                why[rank] = "it is as fast as before: it has its whole share again"
            elif int(due[rank]) > own.samples:
                trial[rank] = _Adjusted(int(due[rank]), own.since, own.hold_seconds)
                why[rank] = f"it would be early: {int(due[rank])} samples instead of {own.samples}"
        now = self._slowest(self.shares, speeds)
        then = self._slowest(self._deal(trial), speeds)
        if not why or then > (1 + GAIN) * now:
            return {}
        self._own = trial
        return why

    def _whole(self, rank: int) -> float:
        """What a rank would have if it alone were not adjusted any more."""
        rest = {r: own for r, own in self._own.items() if r != rank}
        return self._deal(rest)[rank]

    # --- all ---

    def _is_warm(self, reading: Reading) -> bool:
        """Whether heat may be what makes it slow: not every phone says that it is."""
        celsius = reading.battery_celsius
        return reading.slowed or (
            celsius is not None and celsius >= self._pause_celsius - WARM_BELOW_PAUSE_CELSIUS
        )

    def _is_paused(self, rank: int) -> bool:
        return rank in self._own and self._own[rank].paused

    def _shrink(self, rank: int, samples: int, *, paused: bool = False) -> None:
        """Each time that a rank falls back after it had its share again, it is held for longer."""
        now, own = self._elapsed_seconds, self._own.get(rank)
        hold = self._holds.get(rank)
        if own is None:
            hold = FIRST_HOLD_SECONDS if hold is None else min(2 * hold, LONGEST_HOLD_SECONDS)
            self._holds[rank] = hold
        self._own[rank] = _Adjusted(samples, now, self._holds[rank], paused)

    def _deal(self, own: dict[int, _Adjusted]) -> list[int]:
        """Adjusted ranks have what they have; the others share the rest as the plan does."""
        fixed = [own[r].samples if r in own and not own[r].paused else 0 for r in self._ranks]
        free = [0 if rank in own else self._plan[rank] for rank in self._ranks]
        rest = self._batch - sum(fixed)
        if not any(free) or rest < self._least:
            weights = [f + w for f, w in zip(fixed, free, strict=True)]
            return bounded_shares(self._batch, weights, self._least)
        dealt = bounded_shares(rest, free, self._least)
        return [f + d for f, d in zip(fixed, dealt, strict=True)]

    @property
    def _ranks(self) -> range:
        return range(len(self._plan))

    @staticmethod
    def _slowest(shares: Sequence[int], speeds: dict[int, float]) -> float:
        """Seconds of an iteration's compute; of ranks that do nothing now nothing is known."""
        return max(shares[rank] / speed for rank, speed in speeds.items())
