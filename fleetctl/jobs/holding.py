"""Phones that a process holds: for as long as it lives, and not a moment longer.

Every holder of phones has a folder among the runs. It is a run with events, or a process has the
folder locked; whoever is neither has forgotten its phones.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fleetctl.jobs.runs import RunFolder
from fleetctl.state import State


@contextmanager
def held(state: State, runs: Path, name: str, phones: Collection[str], why: str) -> Iterator[None]:
    """Hold phones in the name of this process, which is no run.

    Raises Held or Drained. However the process ends, `release_forgotten` frees them.
    """
    folder = RunFolder(runs / name)
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with folder.supervise():
            state.allocate(name, phones, why=why)
            try:
                yield
            finally:
                state.release(name)
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)


def release_forgotten(state: State, runs: Path) -> None:
    """Give back the phones of whoever was killed while it held them: a check, a measurement, a
    launch before its run was written down."""
    for name in {facts.run for facts in state.phones().values() if facts.run}:
        run = RunFolder(runs / name)
        # In this order: a launch writes its run down before it lets go of the lock.
        if not run.supervised and not run.events():
            state.release(name, why="what held them was killed")
            _remove_empty(run)


def _remove_empty(run: RunFolder) -> None:
    """A folder with more in it than the lock belongs to a job, or to somebody."""
    with suppress(OSError):
        if [path.name for path in run.path.iterdir()] == ["supervisor.lock"]:
            shutil.rmtree(run.path)
