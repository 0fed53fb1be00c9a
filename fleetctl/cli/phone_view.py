"""How `fleetctl status PHONE` shows one phone: what is stored about it, and its history. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fleetctl.state.history import moment_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fleetctl.state import Event, PhoneFacts

SHOWN_EVENTS = 20
"""So many of the newest in the table; JSON has all that are kept."""


def facts_json(facts: PhoneFacts) -> dict[str, Any]:
    """The stored facts of a phone for JSON. Times in seconds since the epoch."""
    return {
        "drains": [asdict(drain) for drain in facts.drains],
        "health": asdict(facts.health) if facts.health else None,
        "allocation": asdict(facts.allocation) if facts.allocation else None,
    }


def history_json(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [
        {"time": event.time, "kind": event.kind, "who": event.who, "why": event.why}
        for event in events
    ]


def render(facts: PhoneFacts, events: Sequence[Event]) -> RenderableType:
    """What holds now, then what happened, newest last."""
    from rich.console import Group
    from rich.text import Text

    from fleetctl.cli.output import make_table

    now = make_table(["WHAT", "SINCE", "WHO", "WHY"], _facts(facts))
    shown = events[-SHOWN_EVENTS:]
    older = len(events) - len(shown)
    parts: list[RenderableType] = [Text(), now] if now.row_count else []
    if shown:
        told = ((moment_text(each.time), each.kind, each.who, each.why) for each in shown)
        parts += [Text(), make_table(["WHEN", "WHAT HAPPENED", "WHO", "WHY"], told)]
    if older:
        parts.append(Text(f"… and {older} older ones: -o json"))
    return Group(*parts)


def _facts(facts: PhoneFacts) -> list[tuple[str | None, ...]]:
    rows: list[tuple[str | None, ...]] = []
    for drain in facts.drains:
        till = f" (until {moment_text(drain.until)})" if drain.until is not None else ""
        rows.append(("drain", moment_text(drain.since), drain.by, drain.why + till))
    if (health := facts.health) is not None:
        said = f"{health.status}: {health.message}" if health.message else health.status
        rows.append(("health", moment_text(health.time), health.who, said))
    if (held := facts.allocation) is not None:
        why = f"run {held.run}" + (f": {held.why}" if held.why else "")
        rows.append(("job", moment_text(held.since), held.who, why))
    contact = facts.contact
    if contact.missed_since is not None:
        rows.append(("silent", moment_text(contact.missed_since), None, contact.why))
    elif contact.seen is not None:
        rows.append(("answered", moment_text(contact.seen), None, ""))
    return rows
