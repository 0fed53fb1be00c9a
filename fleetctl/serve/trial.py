"""What the queue would do with a job that is not in it: for `launch --dry-run`."""

from __future__ import annotations

from dataclasses import replace

from fleetctl.jobs.choose import Wish
from fleetctl.jobs.launch import Request
from fleetctl.rack import Rack, RackPaths
from fleetctl.serve.decide import Start
from fleetctl.serve.enqueue import entry_of
from fleetctl.serve.outlook import decision_now
from fleetctl.serve.queue import Entry, Queue
from fleetctl.state import State


def trial(
    rack: Rack, paths: RackPaths, state: State, request: Request, who: str, now: float
) -> Start | str:
    """What would come of a job that was queued now: the phones that it starts on, or why it waits.
    The queue stays as it is."""
    entries: list[Entry] = []
    if paths.queue_db.exists():
        with Queue(paths.queue_db) as queue:
            entries = queue.jobs()
    name = "this job"  # no run is called so
    last = max((entry.number for entry in entries), default=0)
    job = replace(entry_of(name, request, who), arrived=now, number=last + 1)
    decision = decision_now(rack, paths, state, [*entries, job], now)
    starts = [start for start in decision.starts if start.name == name]
    return starts[0] if starts else decision.waits[name]


def wish_for(start: Start, wish: Wish) -> Wish:
    """What is asked of the phones that a job is given, which wants what `wish` says."""
    given = (*start.phones, *start.spares)
    named = () if wish.most is None else start.phones
    return Wish(named=named, offered=given, minimum=wish.least, spares=len(start.spares))
