"""What a run has been through, out of its events, and whether another attempt makes sense. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from fleetctl.jobs.verdict import Verdict

ATTEMPTS_WITHOUT_PROGRESS = 3
"""In a row: then it is not this phone or that one."""

FIRST_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a run. `phones` are in rank order; `iteration` is what it began with."""

    number: int
    phones: tuple[str, ...]
    spares: tuple[str, ...]
    iteration: int
    started: bool = False
    verdict: Verdict | None = None
    """How it ended; None while it goes on, or when nobody has looked."""


def attempts(events: Iterable[Mapping[str, Any]]) -> list[Attempt]:
    """The attempts of a run, oldest first."""
    found: list[Attempt] = []
    for event in events:
        match event["kind"]:
            case "created" | "attempt":
                found.append(
                    Attempt(
                        number=event.get("number", 1),
                        phones=tuple(event["phones"]),
                        spares=tuple(event.get("spares", ())),
                        iteration=event.get("iteration", 0),
                    )
                )
            case "started" if found:
                found[-1] = replace(found[-1], started=True)
            case "attempt-ended" if found:
                found[-1] = replace(found[-1], verdict=_verdict(event))
    return found


def _verdict(event: Mapping[str, Any]) -> Verdict:
    return Verdict(**{field.name: event[field.name] for field in fields(Verdict)})


def blamed(past: Sequence[Attempt]) -> dict[str, str]:
    """Phones that have ended an attempt -> why, the last time."""
    found: dict[str, str] = {}
    for attempt in past:
        found |= attempt.verdict.culprits if attempt.verdict else {}
    return found


def left(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Phones on which processes of ended attempts may still be, with the reason."""
    found: dict[str, str] = {}
    for event in events:
        if event["kind"] == "attempt-ended":
            found |= event["left"]
        elif event["kind"] == "cleared":
            found.pop(event["phone"], None)
    return found


def can_go_on(verdict: Verdict, *, trains: bool) -> bool:
    """Whether another attempt may help. A command keeps no checkpoint: what it has done, another
    run of it might do twice."""
    return trains and verdict.state == "failed" and verdict.cause != "program"


def without_progress(past: Sequence[Attempt], iteration: int) -> int:
    """How many attempts in a row, up to the last one, have left no newer checkpoint than they began
    with. `iteration`: that of the newest checkpoint now. Those that were only interrupted do not
    count."""
    count = 0
    for attempt in reversed(past):
        if iteration > attempt.iteration:
            break
        count += attempt.verdict is None or attempt.verdict.cause != "interrupted"
        iteration = attempt.iteration
    return count


def pause_seconds(stalled: int, verdict: Verdict) -> float:
    """Before the next attempt: none while it goes forward or a phone is known to be the reason."""
    if stalled == 0 or (stalled == 1 and verdict.cause != "unknown"):
        return 0.0
    return FIRST_PAUSE_SECONDS * 2.0 ** (stalled - 1)
