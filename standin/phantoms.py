"""The daemon's service that plays Android's phantom-process killer.

From Android 12 on, all apps together may have so many child processes; of more, the oldest are
killed, whatever they do. Here all processes of apps' users are such children: of the apps
themselves there is no process. Android looks every few minutes, this every second.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from standin.android.binder import FIRST_APP_UID
from standin.android.state import StateFile
from standin.daemon.desk import Desk
from standin.daemon.process import started_ticks

POLL_SECONDS = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Child:
    """A child process of an app, and when it started, in ticks since this machine booted."""

    pid: int
    started_ticks: int


def excess(children: Iterable[Child], limit: int) -> list[Child]:
    """Those that are killed so that `limit` stay: the oldest."""
    by_age = sorted(children, key=lambda child: (child.started_ticks, child.pid))
    return by_age[: max(0, len(by_age) - limit)]


async def run(desk: Desk) -> None:
    """Play it on all phones until cancelled."""
    androids = {name: StateFile(desk.rig.folders.hardware(name)) for name in desk.rig.rack.phones}
    while True:
        for name, group in (await desk.groups.find()).items():
            if name not in androids:
                continue
            androids[name].changed()
            state = androids[name].state
            limit = state.phantom_limit if state else None
            pids = group.pids() if limit is not None else []
            if limit is not None and len(pids) > limit:
                for child in excess(_children(pids), limit):
                    log.info("%s: phantom process %d killed, over %d", name, child.pid, limit)
                    with suppress(ProcessLookupError):
                        os.kill(child.pid, signal.SIGKILL)
        await asyncio.sleep(POLL_SECONDS)


def _children(pids: Iterable[int]) -> Iterator[Child]:
    for pid in pids:
        with suppress(FileNotFoundError):
            if Path(f"/proc/{pid}").stat().st_uid >= FIRST_APP_UID:
                ticks = started_ticks(pid)
                if ticks is not None:
                    yield Child(pid, ticks)
