"""What each phone of a run did, and how warm it was, at moments: phones.jsonl of an attempt.

A line is one look at all phones, a list for each quantity in the order of `phones`, null where it
is not known. Looks come less and less often, so that the file of a long run stays small.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from fleetctl.checks.vitals import Vitals
from fleetctl.jobs.lines import append_line, read_lines
from trainer.formats import Progress

FIRST_PAUSE_SECONDS = 5.0
LINES_BEFORE_DOUBLING = 120
"""Ten minutes of the first pause, twenty of the next: a week takes some 1200 lines."""


@dataclass(frozen=True, slots=True)
class PhoneLook:
    """One phone at one moment; None is unknown. Seconds are of its last iteration."""

    iteration: int | None = None
    compute_seconds: float | None = None
    exchange_seconds: float | None = None
    wait_seconds: float | None = None
    battery_celsius: float | None = None
    hottest_celsius: float | None = None
    """Of its thermal zones."""
    throttled_seconds: float | None = None
    """Since its exporter began, so only differences tell."""


@dataclass(frozen=True, slots=True)
class Look:
    """`time` is the controller's, in Unix seconds."""

    time: float
    phones: Mapping[str, PhoneLook]


_QUANTITIES = tuple(field.name for field in fields(PhoneLook))


def of(vitals: Vitals, progress: Progress | None) -> PhoneLook:
    """What is kept of a phone."""
    heat = PhoneLook(
        battery_celsius=vitals.temperature_celsius,
        hottest_celsius=vitals.hottest_celsius,
        throttled_seconds=vitals.throttled_seconds,
    )
    if progress is None or not progress.iteration:
        return heat
    return replace(
        heat,
        iteration=progress.iteration,
        compute_seconds=progress.compute_seconds,
        exchange_seconds=progress.exchange_seconds,
        wait_seconds=progress.wait_seconds,
    )


def pause_seconds(lines: int) -> float:
    """Until the next look, when so many are kept."""
    return FIRST_PAUSE_SECONDS * 2.0 ** min(lines // LINES_BEFORE_DOUBLING, 16)


class Kept:
    """phones.jsonl while it grows; one that an earlier supervisor began goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = len(read_lines(path).records)

    @property
    def pause_seconds(self) -> float:
        return pause_seconds(self._lines)

    def add(self, look: Look) -> None:
        """Keep a look that tells something. A full disk is no reason to end a run."""
        if all(seen == PhoneLook() for seen in look.phones.values()):
            return
        with suppress(OSError):
            append_line(self._path, json.dumps(_document(look)))
            self._lines += 1


def _document(look: Look) -> dict[str, Any]:
    columns = {
        name: [_short(getattr(seen, name)) for seen in look.phones.values()] for name in _QUANTITIES
    }
    told = {name: column for name, column in columns.items() if any(v is not None for v in column)}
    return {"time": round(look.time, 1), "phones": list(look.phones), **told}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}") if isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class Looks:
    """`damaged`: lines that could not be used."""

    looks: tuple[Look, ...]
    damaged: int


def read(path: Path) -> Looks:
    """What a phones.jsonl tells; nothing where there is none."""
    lines = read_lines(path)
    found, damaged = [], lines.damaged
    for record in lines.records:
        try:
            found.append(_look(record))
        except (KeyError, TypeError, ValueError):
            damaged += 1
    return Looks(tuple(found), damaged)


def _look(record: Mapping[str, Any]) -> Look:
    """Raises KeyError, TypeError or ValueError for what is no look."""
    names = [str(name) for name in record["phones"]]
    columns = {name: record.get(name) or [None] * len(names) for name in _QUANTITIES}
    for name, column in columns.items():
        whole = (int,) if name == "iteration" else (int, float)
        if len(column) != len(names):
            raise ValueError(f"{name} is not of as many phones")
        if any(v is not None and (type(v) not in whole or not isfinite(v)) for v in column):
            raise TypeError(f"{name} holds what is no number")
    rows = zip(*columns.values(), strict=True)
    phones = {name: PhoneLook(*row) for name, row in zip(names, rows, strict=True)}
    moment = float(record["time"])
    if not isfinite(moment):
        raise ValueError("its time is no number")
    return Look(moment, phones)
