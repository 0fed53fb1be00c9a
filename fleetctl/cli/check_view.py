"""How `fleetctl check` shows what it found of phones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fleetctl.checks.phone import folded, sentence
from fleetctl.cli.check_controller import outcomes_json
from fleetctl.rack.nodesets import fold, fold_sentences

if TYPE_CHECKING:
    from fleetctl.checks.registry import Outcome

type Outcomes = Mapping[str, Sequence[Outcome]]


def bad(outcomes: Outcomes) -> list[str]:
    """Phones that failed a check."""
    return [name for name, found in outcomes.items() if _any_critical(found)]


def unclear(outcomes: Outcomes) -> list[str]:
    """Phones that failed none, and of which not all was found out."""
    return [
        name
        for name, found in outcomes.items()
        if not _any_critical(found) and any(one.result.missed for one in found)
    ]


def good(outcomes: Outcomes) -> list[str]:
    return [name for name in outcomes if name not in {*bad(outcomes), *unclear(outcomes)}]


def as_json(outcomes: Outcomes, level: int) -> dict[str, Any]:
    well = set(good(outcomes))
    phones = [
        {"name": name, "good": name in well, "checks": outcomes_json(found)}
        for name, found in outcomes.items()
    ]
    return {"level": level, "phones": phones}


def lines(outcomes: Outcomes) -> list[str]:
    """Phones that say the same, good or bad, stand on one line."""
    found = [
        f"{status:8} {line}" for status in ("CRITICAL", "WARN") for line in folded(outcomes, status)
    ]
    found += [f"{'UNKNOWN':8} {line}" for line in _missed(outcomes)]
    return found + ([f"{'OK':8} {fold(well)}"] if (well := good(outcomes)) else [])


def summary(outcomes: Outcomes) -> str:
    said = f"{len(good(outcomes))} of {len(outcomes)} phones can take a job"
    unknown = unclear(outcomes)
    return f"{said}; {fold(unknown)}: not all is known" if unknown else said


def _any_critical(found: Iterable[Outcome]) -> bool:
    return any(one.result.status == "CRITICAL" for one in found)


def _missed(outcomes: Outcomes) -> list[str]:
    """What was not found out; where several checks miss the same, another one has the cure."""
    return fold_sentences(
        (name, said) for name, found in outcomes.items() for said in _missed_of(name, found)
    )


def _missed_of(name: str, found: Iterable[Outcome]) -> Iterator[str]:
    by_message: dict[str, list[Outcome]] = {}
    for one in found:
        if one.result.missed:
            by_message.setdefault(one.result.message, []).append(one)
    for message, same in by_message.items():
        if len(same) == 1:
            yield sentence(name, message, same[0].check.cure)
        else:
            yield f"{name}: {', '.join(one.check.name for one in same)}: {message}"
