"""Plays a job's supervisor: holds the run and its phones until it is told how the job ends."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fleetctl.jobs.runs import RunFolder, Supervised
from fleetctl.rack import RackPaths, load_rack
from fleetctl.serve.queue import Queue
from fleetctl.state import State

paths = RackPaths(load_rack(Path(sys.argv[1])).name)
run = RunFolder(paths.runs / sys.argv[2])
with State(paths.state_db) as state, Queue(paths.queue_db) as queue:
    try:
        with run.supervise():
            entry = queue.get(run.name)
            if not run.events() and entry is not None:
                state.allocate(run.name, entry.phones)
                run.record("created", phones=entry.phones)
                run.record("started", head=entry.phones[0], pid=1)
            while not (run.path / "end").exists():
                time.sleep(0.02)
            state.release(run.name)
            run.record("ended", state="done")
    except Supervised:
        sys.exit(0)
