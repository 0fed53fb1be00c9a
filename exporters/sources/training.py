"""How far the run is that this phone works on, from the record its trainer rewrites."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from exporters.metrics import (
    TRAINING_ACCURACY,
    TRAINING_COMPUTE,
    TRAINING_EPOCH,
    TRAINING_EXCHANGE,
    TRAINING_IMAGES,
    TRAINING_INFO,
    TRAINING_ITERATION,
    TRAINING_ITERATIONS,
    TRAINING_LOSS,
    TRAINING_UPDATED,
    TRAINING_WAIT,
    Sample,
)
from exporters.sources import Layout, Source

STALE_SECONDS = 300.0
"""A record that has not changed for so long is of a run that is dead or stuck."""
FINISHED_SECONDS = 60.0
"""A finished run is still shown so long, so that a scrape gets its last values."""


def source(layout: Layout) -> Source:
    return Source("training", lambda: list(training(layout, time.time())))


def training(layout: Layout, now: float) -> Iterator[Sample]:
    """Nothing while no run is under way. Raises FormatError for a record that is not one."""
    # Here and not above: a broken trainer in a release must not take the exporter along.
    from trainer.formats import Progress, final_name

    path = newest_record(layout.folder / "runs", now)
    if path is None:
        return
    progress = Progress.read(path)
    ended = _age(path.parent / final_name(progress.rank), now)
    # A record newer than the final word is of the run's resumption.
    if ended is not None and ended > FINISHED_SECONDS and ended <= (_age(path, now) or 0.0):
        return
    yield TRAINING_INFO.sample(1, progress.run, str(progress.rank))
    yield TRAINING_ITERATION.sample(progress.iteration)
    yield TRAINING_ITERATIONS.sample(progress.iterations)
    yield TRAINING_EPOCH.sample(progress.epoch)
    yield TRAINING_IMAGES.sample(progress.images)
    yield TRAINING_UPDATED.sample(progress.time)
    if progress.iteration:
        yield TRAINING_COMPUTE.sample(progress.compute_seconds)
        yield TRAINING_EXCHANGE.sample(progress.exchange_seconds)
        yield TRAINING_WAIT.sample(progress.wait_seconds)
    if progress.loss is not None:
        yield TRAINING_LOSS.sample(progress.loss)
    if progress.accuracy is not None:
        yield TRAINING_ACCURACY.sample(progress.accuracy)


def newest_record(runs: Path, now: float) -> Path | None:
    """The newest rank-*.progress.json that is not stale.

    A record is replaced by a rename, which touches its folder: folders that nobody touched lately
    need no look, however many old runs a phone keeps.
    """
    try:
        with os.scandir(runs) as entries:
            live = [Path(e.path) for e in entries if e.is_dir() and _fresh(Path(e.path), now)]
    except FileNotFoundError:
        return None
    records = [
        (age, p)
        for run in live
        for p in run.glob("rank-*.progress.json")
        if (age := _age(p, now)) is not None and age < STALE_SECONDS
    ]
    return min(records)[1] if records else None


def _fresh(path: Path, now: float) -> bool:
    age = _age(path, now)
    return age is not None and age < STALE_SECONDS


def _age(path: Path, now: float) -> float | None:
    """Seconds since the file changed, either way: a phone's clock jumps. None without a file."""
    try:
        return abs(now - path.stat().st_mtime)
    except FileNotFoundError:
        return None
