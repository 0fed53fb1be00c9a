"""What a run cost: the phones that it held, for how long, and their energy where measured. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

_TAKES_PHONES = ("created", "attempt")
"""Events that say which phones the run holds from then on."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`energy_watt_hours` is of `measured` phones only; None where no phone's was measured."""

    phone_hours: float
    phones: int
    """Different phones that it has held, spares included."""
    energy_watt_hours: float | None = None
    measured: int = 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def words(self) -> str:
        """`0.53 phone-hours; energy: 4.1 Wh`, or what of it is not known."""
        hours = f"{self.phone_hours:.2f} phone-hours"
        if self.energy_watt_hours is None:
            return f"{hours}; energy: not measured"
        part = (
            "" if self.measured == self.phones else f", of {self.measured} of {self.phones} phones"
        )
        return f"{hours}; energy: {self.energy_watt_hours:.1f} Wh{part}"


@dataclass(frozen=True, slots=True)
class Held:
    """A phone that was held from `since` to `until`, seconds since the epoch."""

    phone: str
    since: float
    until: float


def held(events: Iterable[Mapping[str, Any]], now: float) -> list[Held]:
    """Who was held when, until the run ended or went back into the queue, or until `now`."""
    since: dict[str, float] = {}
    found: list[Held] = []

    def keep(only: Iterable[str], moment: float) -> None:
        for phone in set(since).difference(only):
            found.append(Held(phone, since.pop(phone), moment))

    for event in events:
        if event["kind"] in _TAKES_PHONES:
            phones = [*event["phones"], *event.get("spares", ())]
            keep(phones, event["time"])
            for phone in phones:
                since.setdefault(phone, event["time"])
        elif event["kind"] in ("requeued", "ended"):
            keep((), event["time"])
    keep((), now)
    return sorted(found, key=lambda each: (each.since, each.phone))


def cost_of(events: Iterable[Mapping[str, Any]], now: float) -> Cost:
    """The cost of a run, up to now if it is not over."""
    known = list(events)
    spans = held(known, now)
    seconds = sum(max(span.until - span.since, 0.0) for span in spans)
    measured: dict[str, float] = {}
    for event in known:
        if event["kind"] == "energy":
            measured = event["watt_hours"]
    return Cost(
        phone_hours=round(seconds / 3600, 4),
        phones=len({span.phone for span in spans}),
        energy_watt_hours=round(sum(measured.values()), 3) if measured else None,
        measured=len(measured),
    )
