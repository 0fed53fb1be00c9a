"""What the queue would do with a job that is not in it: for `launch --dry-run`."""

from __future__ import annotations

from dataclasses import replace

from fleetctl.jobs.choose import Wish
from fleetctl.jobs.launch import Request
from fleetctl.rack import Rack, RackPaths
from fleetctl.serve.enqueue import entry_of, wish_of
from fleetctl.serve.outlook import decision_now
from fleetctl.serve.queue import Entry, Queue
from fleetctl.state import State


def trial(
    rack: Rack, paths: RackPaths, state: State, request: Request, who: str, now: float
) -> Wish | str:
    """What would come of a job that was queued now: what is asked of the phones that it is given,
    or why it waits. The queue stays as it is."""
    entries: list[Entry] = []
    if paths.queue_db.exists():
        with Queue(paths.queue_db) as queue:
            entries = queue.jobs()
    name = "this job"  # no run is called so
    last = max((entry.number for entry in entries), default=0)
    job = replace(entry_of(name, request, who), arrived=now, number=last + 1)
    decision = decision_now(rack, paths, state, [*entries, job], now)
    starts = [start for start in decision.starts if start.name == name]
    if not starts:
        return decision.waits[name]
    phones, spares = starts[0].phones, starts[0].spares
    return wish_of(job, (*phones, *spares), len(phones), len(spares))
