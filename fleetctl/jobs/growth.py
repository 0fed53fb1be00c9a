"""A run that wants more phones than it has takes those in that become ready, at a checkpoint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

from fleetctl.checks import phone as preflight
from fleetctl.checks.hardware import heat
from fleetctl.jobs import choose
from fleetctl.jobs.choose import Again
from fleetctl.jobs.rehearsal import too_small
from fleetctl.jobs.room import Room
from fleetctl.jobs.supervise import Watch
from fleetctl.rack.nodesets import fold
from fleetctl.rack.placement import nearest
from trainer.formats import MemoryNeed

LOOK_SECONDS = 30.0
WORTH_SECONDS = 180.0
"""To take phones in is to start anew: a run that is nearer to its end stays as it is."""


async def grow(
    room: Room,
    watch: Watch,
    want: int,
    again: Again,
    may_grow: Callable[[Collection[str]], bool] = lambda _: True,
) -> None:
    """Wait for phones that are ready and pass preflight, then for the next checkpoint, and end the
    attempt there. Returns when the run has enough of them."""
    lacking = want - len(watch.phones)
    while lacking > 0:
        await asyncio.sleep(LOOK_SECONDS)
        if watch.tracker.remaining_seconds < WORTH_SECONDS:
            continue
        choice = choose.candidates(room.rack, room.state.phones(), time.time(), again.pool, again)
        free = [phone for phone in choice.first if phone not in watch.phones]
        more = nearest(free, lacking, watch.phones, room.rack.switch_of)
        ready = await _passing(room, more, again.memory) if may_grow(more) else []
        if ready:
            await _next_checkpoint(watch)
            found = "phone is" if len(ready) == 1 else "phones are"
            watch.regroup(f"{fold(ready)}: {len(ready)} more {found} ready and taken in")
            return


async def _passing(room: Room, phones: Collection[str], memory: MemoryNeed | None) -> list[str]:
    if not phones:
        return []
    wanted = room.state.wanted_revocations()
    facts = await preflight.gather(room.fleet, room.rack, phones, wanted_revocations=wanted)
    outcomes = preflight.judge(facts, room.rack)
    free = {phone: facts[phone].free_memory_bytes for phone in facts}
    small = too_small(memory, free) if memory is not None else {}
    return [
        phone
        for phone, found in outcomes.items()
        if all(o.result.status != "CRITICAL" for o in found)
        and phone not in small
        and not heat(facts[phone], room.rack)  # worth no new start before it has cooled
    ]


async def _next_checkpoint(watch: Watch) -> None:
    seen = watch.tracker.checkpoint
    while watch.tracker.checkpoint is seen:
        await asyncio.sleep(0.1)
