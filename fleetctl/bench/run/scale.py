"""The axis of time of a run's figures."""

from __future__ import annotations

from dataclasses import dataclass

from fleetctl.bench.run.record import RunRecord


@dataclass(frozen=True, slots=True)
class Clock:
    """Unix seconds as `label` says: units since the run's first rank was started."""

    zero: float
    unit_seconds: float
    label: str

    def of(self, time: float) -> float:
        return (time - self.zero) / self.unit_seconds


def clock(record: RunRecord) -> Clock:
    """From the first attempt's start: preflight and staging are no part of the figures."""
    zero = record.attempts[0].began if record.attempts else record.began
    length = max((attempt.ended for attempt in record.attempts), default=zero) - zero
    for unit_seconds, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if length >= 2 * unit_seconds:
            return Clock(zero, unit_seconds, f"{name} since the start")
    return Clock(zero, 1.0, "seconds since the start")
