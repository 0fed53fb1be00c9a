"""The time limit of a job: it is asked to end with a checkpoint, and stopped if it does not.

It counts from when the run got its phones, over all its attempts and supervisors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fleetctl.errors import FleetError
from fleetctl.jobs import onphone
from fleetctl.jobs.jobfile import duration_words, read_job
from fleetctl.jobs.room import Room
from fleetctl.jobs.runs import RunFolder

FINISH_SECONDS = 120.0
"""How long a run may take to end its iteration and write a checkpoint."""


def ends_at(run: RunFolder) -> float | None:
    """When the time limit of a run will have passed, in seconds since the epoch; None without one,
    or when its job cannot be read."""
    began = next((e["time"] for e in run.events() if e["kind"] == "created"), None)
    try:
        limit = read_job(run.job_file).time_limit
    except (FleetError, OSError):
        return None
    return None if limit is None or began is None else float(began + limit)


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
