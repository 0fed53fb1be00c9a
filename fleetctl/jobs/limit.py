"""The time limit of a job: it is asked to end with a checkpoint, and stopped if it does not.

It counts from when the run got its phones, over all its attempts and supervisors, but not while it
waits in the queue again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from fleetctl.errors import FleetError
from fleetctl.jobs import onphone
from fleetctl.jobs.jobfile import duration_words, read_job
from fleetctl.jobs.room import Room
from fleetctl.jobs.runs import RunFolder

FINISH_SECONDS = 120.0
"""How long a run may take to end its iteration and write a checkpoint."""


def ends_at(run: RunFolder) -> float | None:
    """When the time limit of a run will have passed, in seconds since the epoch; None without one,
    while it waits in the queue again, or when its job cannot be read."""
    events = run.events()
    began = next((e["time"] for e in events if e["kind"] == "created"), None)
    waited, waits_since = _waited(events)
    try:
        limit = read_job(run.job_file).time_limit
    except (FleetError, OSError):
        return None
    if limit is None or began is None or waits_since is not None:
        return None
    return float(began + limit + waited)


def note_given(run: RunFolder) -> None:
    """A run that waited in the queue again has phones again: its time goes on from here."""
    if _waited(run.events())[1] is not None:
        run.record("given")


def _waited(events: Iterable[Mapping[str, Any]]) -> tuple[float, float | None]:
    """How long the run has waited in the queue since it began, and since when it does so now."""
    seconds, since = 0.0, None
    for event in events:
        if event["kind"] == "requeued":
            since = event["time"]
        elif event["kind"] == "given" and since is not None:
            seconds, since = seconds + max(event["time"] - since, 0.0), None
    return seconds, since


@asynccontextmanager
async def enforced(
    room: Room, run: RunFolder, stop_requested: asyncio.Event
) -> AsyncIterator[None]:
    """While the block carries the run, its time limit ends it, at most FINISH_SECONDS late."""
    end = ends_at(run)
    if end is None:
        yield
        return
    task = asyncio.create_task(_enforce(room, run, end, stop_requested))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _enforce(room: Room, run: RunFolder, end: float, stop_requested: asyncio.Event) -> None:
    await asyncio.sleep(max(end - time.time(), 0.0))
    if stop_requested.is_set():
        return
    limit = duration_words(read_job(run.job_file).time_limit or 0.0)
    reason = f"time limit of {limit}"
    room.remark(f"{run.name} has reached its {reason}: it ends with a checkpoint")
    await finish(room, run, reason, stop_requested)


async def finish(room: Room, run: RunFolder, reason: str, stop_requested: asyncio.Event) -> None:
    """Have the run end by itself with a checkpoint; stop it when that takes too long."""
    with suppress(OSError):
        run.record("stop-requested", by=reason, reason=reason)
    if run.plan() is not None:
        phones, ask = run.summary().phones, onphone.ask_to_finish(run.attempt_name)
        await room.fleet.run(phones, ask, timeout_seconds=10)
        await asyncio.sleep(FINISH_SECONDS)
    stop_requested.set()
