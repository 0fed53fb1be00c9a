"""The numbers of a run: how it learned, how fast, and what each of its phones did. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from fleetctl.bench.run.record import Attempt, RunRecord
from fleetctl.jobs.looks import PhoneLook


@dataclass(frozen=True, slots=True)
class Step:
    """One look at a phone that trains."""

    time: float
    compute_seconds: float
    seconds_per_sample: float
    celsius: float | None


@dataclass(frozen=True, slots=True)
class PhoneStory:
    """One phone in a run, over all attempts; None is unknown. Seconds of compute are medians."""

    phone: str
    iterations: int
    """Different ones that were looked at."""
    compute_seconds: float | None
    seconds_per_sample: float | None
    of_fastest: float | None
    """Times as long for a sample as the fastest phone."""
    coolest_celsius: float | None
    hottest_celsius: float | None
    throttled_seconds: float | None
    watt_hours: float | None
    named_straggler: bool
    lost: str | None
    """Why it ended an attempt."""


@dataclass(frozen=True, slots=True)
class Digest:
    iterations: int
    images: int
    images_per_second: float | None
    """Median over iterations."""
    compute_seconds: float | None
    exchange_seconds: float | None
    wait_seconds: float | None
    loss: float | None
    """Of the last iteration."""
    test_accuracy: float | None
    best_test_accuracy: float | None
    diverged_at: int | None
    """The first iteration whose loss was no number."""
    joules_per_image: float | None
    sensor: str
    """Whose temperature is told: `hottest sensor` or `battery`."""
    phones: tuple[PhoneStory, ...]
    """In rank order of the first attempt."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def digest(record: RunRecord) -> Digest:
    steps = record.iterations
    tests = [each for attempt in record.attempts for each in attempt.evaluations]
    images = sum(step.images for step in steps)
    hours = record.watt_hours
    whole = bool(hours) and record.cost.measured == record.cost.phones
    losses = [(s.iteration, s.loss) for s in steps if s.loss is not None]
    return Digest(
        iterations=len(steps),
        images=images,
        images_per_second=_median([s.images_per_second for s in steps]),
        compute_seconds=_median([s.compute_seconds for s in steps]),
        exchange_seconds=_median([s.exchange_seconds for s in steps]),
        wait_seconds=_median([s.wait_seconds for s in steps]),
        loss=losses[-1][1] if losses and math.isfinite(losses[-1][1]) else None,
        test_accuracy=tests[-1].test_accuracy if tests else record.summary.test_accuracy,
        best_test_accuracy=max((t.test_accuracy for t in tests), default=None),
        diverged_at=next((at for at, loss in losses if not math.isfinite(loss)), None),
        joules_per_image=sum(hours.values()) * 3600 / images if whole and images else None,
        sensor=sensor(record),
        phones=tuple(_stories(record)),
    )


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def sensor(record: RunRecord) -> str:
    """The hottest sensor where every phone that tells a temperature has zones, else the battery:
    the two are not to be compared."""
    seen: dict[str, bool] = {}
    for attempt in record.attempts:
        for look in attempt.looks:
            for phone, found in look.phones.items():
                if found.hottest_celsius is not None or found.battery_celsius is not None:
                    zones = found.hottest_celsius is not None
                    seen[phone] = seen.get(phone, False) or zones
    return "hottest sensor" if seen and all(seen.values()) else "battery"


def celsius(look: PhoneLook, sensor_name: str) -> float | None:
    return look.battery_celsius if sensor_name == "battery" else look.hottest_celsius


def steps_of(record: RunRecord) -> dict[str, list[Step]]:
    """By phone: its looks with compute, each iteration once, in order of time."""
    named = sensor(record)
    found: dict[str, list[Step]] = {}
    for attempt in record.attempts:
        for phone, steps in _steps_of_attempt(attempt, named):
            found.setdefault(phone, []).extend(steps)
    return found


def _steps_of_attempt(attempt: Attempt, named: str) -> Iterator[tuple[str, list[Step]]]:
    for phone in attempt.phones:
        last, steps = None, []
        for look in attempt.looks:
            seen = look.phones.get(phone)
            if seen is None or seen.compute_seconds is None or seen.iteration == last:
                continue
            last = seen.iteration
            share = attempt.samples_at(seen.iteration).get(phone, 0)
            if not share:  # it pauses, or nobody knows
                continue
            seconds = seen.compute_seconds
            steps.append(Step(look.time, seconds, seconds / share, celsius(seen, named)))
        if steps:
            yield phone, steps


def heat_of(record: RunRecord) -> dict[str, list[tuple[float, float]]]:
    """By phone: (time, °C) of every look that tells one, whether it trained or not."""
    named = sensor(record)
    found: dict[str, list[tuple[float, float]]] = {}
    for attempt in record.attempts:
        for look in attempt.looks:
            for phone, seen in look.phones.items():
                value = celsius(seen, named)
                if value is not None:
                    found.setdefault(phone, []).append((look.time, value))
    return found


def _stories(record: RunRecord) -> Iterator[PhoneStory]:
    steps, heat = steps_of(record), heat_of(record)
    each = {phone: median(s.seconds_per_sample for s in known) for phone, known in steps.items()}
    fastest = min(each.values(), default=0.0)
    named = {e.get("phone") for e in record.events if e["kind"] == "straggler"}
    lost = {
        phone: str(why)
        for event in record.events
        if event["kind"] == "attempt-ended"
        for phone, why in event["culprits"].items()
    }
    hours = record.watt_hours
    order = dict.fromkeys(phone for attempt in record.attempts for phone in attempt.phones)
    for phone in order:
        known, warm = steps.get(phone, []), [value for _, value in heat.get(phone, [])]
        yield PhoneStory(
            phone,
            len(known),
            _median([step.compute_seconds for step in known]),
            each.get(phone),
            each[phone] / fastest if phone in each and fastest > 0 else None,
            min(warm, default=None),
            max(warm, default=None),
            _throttled(record, phone),
            hours.get(phone),
            phone in named,
            lost.get(phone),
        )


def _throttled(record: RunRecord, phone: str) -> float | None:
    """By how much its counter grew while it was looked at; one that fell has begun anew."""
    told = [
        seen.throttled_seconds
        for attempt in record.attempts
        for look in attempt.looks
        if (seen := look.phones.get(phone)) is not None and seen.throttled_seconds is not None
    ]
    if not told:
        return None
    return sum(later - before if later >= before else later for before, later in pairwise(told))
