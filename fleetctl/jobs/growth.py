"""A run that wants more phones than it has takes those in that become ready, at a checkpoint."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from fleetctl.checks import phone as preflight
from fleetctl.checks.hardware import heat
from fleetctl.checks.health import keep
from fleetctl.jobs import choose
from fleetctl.jobs.choose import Again
from fleetctl.jobs.rehearsal import too_small
from fleetctl.jobs.room import Room
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.supervise import Watch
from fleetctl.rack.nodesets import fold
from fleetctl.rack.placement import nearest

LOOK_SECONDS = 30.0
WORTH_SECONDS = 180.0
"""To take phones in is to start anew: a run that is nearer to its end stays as it is."""


async def grow(
    room: Room,
    watch: Watch,
    want: int,
    pool: Sequence[str] = (),
    may_grow: Callable[[Collection[str]], bool] = lambda _: True,
) -> None:
    """Wait for phones that pass preflight, until no more join them, so that those which come back
    together cost one new start; then for the next checkpoint, and end the attempt there. Returns
    when the run has enough of them. `pool`: the only phones that it may have; empty: any."""
    lacking, before = want - len(watch.phones), frozenset[str]()
    while lacking > 0:
        await asyncio.sleep(LOOK_SECONDS)
        ready = await _ready(room, watch, pool)
        more, before = not before.issuperset(ready), frozenset(ready)
        near = nearest(ready, lacking, watch.phones, room.rack.switch_of)
        if not ready or (more and len(ready) < lacking) or not may_grow(near):
            continue
        await _next_checkpoint(watch)
        # That may have taken long: who was ready then may be gone, or somebody else's.
        near = nearest(await _ready(room, watch, pool), lacking, watch.phones, room.rack.switch_of)
        if near and may_grow(near):
            found = "phone is" if len(near) == 1 else "phones are"
            watch.regroup(f"{fold(near)}: {len(near)} more {found} ready and taken in")
            return


async def _ready(room: Room, watch: Watch, pool: Sequence[str]) -> list[str]:
    """Phones that the run does not hold and could go on with. Those that are suspect or were lost,
    perhaps by this run's doing, are asked too: a good preflight is what makes them ready again."""
    if watch.tracker.remaining_seconds < WORTH_SECONDS:
        return []
    known = room.state.phones()
    choice = choose.candidates(room.rack, known, time.time(), pool, Again(watch.run.name, ()))
    return await _passing(
        room,
        watch.run,
        [
            phone
            for phone in (*choice.first, *choice.second)
            if phone not in watch.phones and not (phone in known and known[phone].run)
        ],
    )


async def _passing(room: Room, run: RunFolder, phones: Sequence[str]) -> list[str]:
    if not phones:
        return []
    wanted = room.state.wanted_revocations()
    found = await preflight.gather(room.fleet, room.rack, phones, wanted_revocations=wanted)
    release, openmpi = (_of_the_run(run, key) for key in ("release", "openmpi"))
    facts = {
        phone: replace(
            each,
            common_release=release or each.common_release,
            common_openmpi=openmpi or each.common_openmpi,
        )
        for phone, each in found.items()
    }
    outcomes = preflight.judge(facts, room.rack)
    keep(room.state, facts, outcomes)
    memory = run.memory()
    free = {phone: known.free_memory_bytes for phone, known in facts.items()}
    small = too_small(memory, free) if memory is not None else {}
    return [
        phone
        for phone in phones
        if all(o.result.status != "CRITICAL" for o in outcomes[phone])
        and phone not in small
        and not heat(facts[phone], room.rack)  # worth no new start before it has cooled
    ]


def _of_the_run(run: RunFolder, key: str) -> str | None:
    """The version that the attempt's phones have, with which others must agree."""
    with suppress(OSError, ValueError):
        versions: Mapping[str, str] = json.loads(run.versions_file.read_text())[key]
        return next(iter(versions), None)
    return None


async def _next_checkpoint(watch: Watch) -> None:
    seen = watch.tracker.checkpoint
    while watch.tracker.checkpoint is seen:
        await asyncio.sleep(0.1)
