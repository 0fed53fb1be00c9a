"""Phones that fail again and again take no jobs for a while."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from fleetctl.jobs.runs import RunFolder
from fleetctl.state import State

WHO = "recovery"
"""Who has set the drain of a phone that cools down."""

REMEMBERED_SECONDS = 24 * 3600.0
FIRST_SECONDS = 900.0
MOST_SECONDS = 6 * 3600.0


def cool_down(
    state: State, run: RunFolder, culprits: Mapping[str, str], now: float | None = None
) -> None:
    """Drain for a while those of the phones, which have just ended an attempt of `run`, that have
    done so before within a day, in whichever run. A person can lift the drain."""
    if not culprits:
        return
    now = time.time() if now is None else now
    before = failures(run.path.parent, culprits, now - REMEMBERED_SECONDS)
    for phone, reason in culprits.items():
        seconds = cool_down_seconds(before[phone])
        if seconds:
            why = f"failed {len(before[phone])} times within a day, the last time: {reason}"
            state.drain([phone], WHO, why, origin="check", until=now + seconds)
            run.record("cooling", phone=phone, seconds=seconds, why=why)


def cool_down_seconds(times: Sequence[float]) -> float:
    """How long a phone rests that has failed at these moments; 0: not at all."""
    if len(times) < 2:
        return 0.0
    return min(FIRST_SECONDS * 2.0 ** (len(times) - 2), MOST_SECONDS)


def failures(runs: Path, phones: Collection[str], since: float) -> dict[str, list[float]]:
    """When each of the phones has ended an attempt of any run."""
    found: dict[str, list[float]] = {phone: [] for phone in phones}
    for folder in runs.iterdir() if runs.exists() else ():
        run = RunFolder(folder)
        if run.events_file.exists() and run.events_file.stat().st_mtime >= since:
            for event in run.events():
                if event["kind"] == "attempt-ended" and event["time"] >= since:
                    for phone in found.keys() & event["culprits"].keys():
                        found[phone].append(event["time"])
    return found
