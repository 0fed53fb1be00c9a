"""Preflight: one probe a phone, then pure checks of what it answered."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fleetctl.checks import deep, hardware, kept_code, network, software
from fleetctl.checks.answer import DeepFacts, PhoneFacts, read
from fleetctl.checks.links import recent
from fleetctl.checks.registry import Outcome, run_checks
from fleetctl.rack import Rack
from fleetctl.rack.nodesets import fold_sentences
from fleetctl.state.facts import Status

if TYPE_CHECKING:
    from fleetctl.remote import Fleet

__all__ = ["DeepFacts", "PhoneFacts", "folded", "gather", "judge", "read", "with_common_versions"]

CHECKED_BY = (network, software, hardware, deep)
"""The modules that register checks of phones."""

PROBE = Path(__file__).with_name("phone_probe.py")

LINKS_LIMIT_SECONDS = 3.0
"""No launch waits longer for a Prometheus that hangs."""

PROBE_LIMIT_SECONDS = 60.0
"""A first import of torch from cold flash, on a phone that others keep busy."""


async def gather(
    fleet: Fleet,
    rack: Rack,
    names: Iterable[str],
    *,
    holders: Mapping[str, str | None] | None = None,
    keep_stamp: bool = True,
    wanted_revocations: int = 0,
) -> dict[str, PhoneFacts]:
    """Ask all phones at once. `holders`: the run that holds each phone, whose processes may be.
    `wanted_revocations`: version of the rack's list of revoked keys.

    With `keep_stamp` a phone notes that its torch imports, so that the next probe is quick.
    """
    order = list(names)
    program = PROBE.read_text()
    recorded = asyncio.create_task(asyncio.to_thread(recent, rack, "15m", LINKS_LIMIT_SECONDS))
    words = ("stamp",) if keep_stamp else ()
    command = kept_code.command("preflight", program, *words, keep=keep_stamp)

    async def ask(name: str) -> PhoneFacts:
        began = time.time()
        answer = await fleet.run_on(
            name, command, stdin=program, timeout_seconds=PROBE_LIMIT_SECONDS
        )
        facts = read(name, rack.phones[name].address, answer, (began, time.time()))
        holder = (holders or {}).get(name)
        strays = {run: pids for run, pids in facts.strays.items() if run != holder}
        return replace(facts, strays=strays, wanted_revocations=wanted_revocations)

    found = await asyncio.gather(*(ask(name) for name in order))
    links = await recorded or {}
    return with_common_versions(
        {facts.name: replace(facts, link=links.get(facts.name)) for facts in found}
    )


def with_common_versions(found: Mapping[str, PhoneFacts]) -> dict[str, PhoneFacts]:
    """Each phone learns who they are, and which release and Open MPI most of them have."""
    release = _most_common(facts.release for facts in found.values())
    openmpi = _most_common(facts.openmpi for facts in found.values())
    together = frozenset(found)
    return {
        name: replace(facts, common_release=release, common_openmpi=openmpi, together=together)
        for name, facts in found.items()
    }


def _most_common(versions: Iterable[str | None]) -> str | None:
    known = Counter(version for version in versions if version is not None)
    return known.most_common(1)[0][0] if known else None


def judge(facts: Mapping[str, PhoneFacts], rack: Rack, level: int = 1) -> dict[str, list[Outcome]]:
    """All phone checks up to `level` for every phone."""
    return {name: run_checks("phone", facts[name], rack, level) for name in facts}


def folded(outcomes: Mapping[str, Iterable[Outcome]], *statuses: Status) -> list[str]:
    """One line for each message of the given statuses: `phone[002-003]: message; cure`."""
    return fold_sentences(
        (name, sentence(name, outcome.result.message, outcome.check.cure))
        for name, found in outcomes.items()
        for outcome in found
        if outcome.result.status in statuses
    )


def sentence(name: str, message: str, cure: str = "") -> str:
    """A message with its phone, which faults of the connection name themselves, and its cure."""
    said = message if message.startswith((f"{name} ", f"{name}:")) else f"{name}: {message}"
    return f"{said}; {cure}" if cure else said
