"""Stop a job of the queue that has not begun to run."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from fleetctl.errors import FleetError
from fleetctl.jobs.runs import RunFolder, Supervised
from fleetctl.rack import RackPaths
from fleetctl.serve.enqueue import end_unstarted, withdraw
from fleetctl.serve.queue import NotWaiting, Queue
from fleetctl.state import user

LIMIT_SECONDS = 60.0
"""How long a supervisor may take to break off a start."""


def stop_unstarted(paths: RackPaths, name: str) -> bool:
    """Take the job out of the queue, or break its start off; False if it has begun to run, or is
    no job of the queue. Raises FleetError when its supervisor does not end."""
    if not paths.queue_db.exists():
        return False
    who = user()
    with Queue(paths.queue_db) as queue:
        entry = queue.get(name)
        if entry is None:
            return False
        if entry.waits:
            try:
                withdraw(paths, queue, name, who)
                return True
            except NotWaiting:
                pass  # it was given phones this very moment
        return _break_off(RunFolder(paths.runs / name), queue, who)


def _break_off(run: RunFolder, queue: Queue, who: str) -> bool:
    deadline, asked = time.monotonic() + LIMIT_SECONDS, None
    while time.monotonic() < deadline:
        if run.events():
            # Whoever stops runs can stop it, unless it is over by now.
            return run.summary().over
        entry = queue.get(run.name)
        if entry is None or entry.waits:
            with suppress(NotWaiting):
                queue.take_out(run.name)
            end_unstarted(run, "stopped", f"taken out of the queue by {who}")
            return True
        pid = run.supervisor()
        if pid is None:
            with suppress(Supervised), run.supervise():
                # Between its phones and its supervisor: nobody else will look at it any more.
                end_unstarted(run, "stopped", f"taken out of the queue by {who}")
                queue.remove(run.name)
                return True
        elif pid != asked:
            asked = pid
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        time.sleep(0.1)
    raise FleetError(
        f"{run.name} is being started and its supervisor, process {asked}, does not end; "
        "do it again in a minute"
    )
