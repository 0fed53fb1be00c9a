"""Runs that are over do not stay for ever, neither on the controller nor on phones.

What is wanted is never removed by itself: a run that is not over, or waits in the queue, and the
newest ones. One that could be resumed stays for a season, or until another has gone on from it. A
person can name any run that is over.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetctl.jobs import onphone, runs
from fleetctl.jobs.room import Room
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import InputError

KEPT_RUNS = 50
"""The newest stay, however old they are."""

KEPT_SECONDS = 14 * 86400.0
"""Others stay for so long after their end."""

RESUMABLE_SECONDS = 90 * 86400.0
"""One that could be resumed stays for so long: its checkpoints are what fills disks."""

MOST_RUNS = 500
"""Beyond so many, a day is enough: within it, failures of phones still count."""

KEPT_ON_PHONE = 5
"""Folders of runs that are over; what they held is on the controller. So do those of a day."""

STRANGE_SECONDS = 7 * 86400.0
"""What this controller knows nothing of stays so long on a phone."""

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*|\.[A-Za-z0-9_-][A-Za-z0-9._-]*")
_NUMBERED = re.compile(r"(.+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Kept:
    """A run folder. `ended` is None for what is not over; `wanted`: by a job of the queue;
    `resumable`: it has a checkpoint, and no other run has gone on from that."""

    name: str
    ended: float | None
    wanted: bool = False
    resumable: bool = False


@dataclass(frozen=True, slots=True)
class Pruned:
    """`runs` are gone from the controller, `folders` (how many) from each phone; `failed` phones
    were not reached, with the reason."""

    runs: Sequence[str]
    folders: Mapping[str, int]
    failed: Mapping[str, str]


def expired(kept: Iterable[Kept], now: float) -> list[str]:
    """The runs that need not stay. Pure.

    The one with the highest number of its name stays too: numbers are never used again.
    """
    free = [run for run in kept if run.ended is not None and not run.wanted]
    free.sort(key=lambda run: run.ended or 0.0, reverse=True)
    over = [run for run in free if not run.resumable]
    highest: dict[str, tuple[int, str]] = {}
    for run in kept:
        if found := _NUMBERED.fullmatch(run.name):
            highest[found[1]] = max(highest.get(found[1], (0, "")), (int(found[2]), run.name))
    last = {name for _, name in highest.values()}
    gone = [
        run.name for run in free if run.resumable and now - (run.ended or 0.0) > RESUMABLE_SECONDS
    ]
    for place, run in enumerate(over):
        limit = 86400.0 if place >= MOST_RUNS else KEPT_SECONDS
        if place >= KEPT_RUNS and now - (run.ended or 0.0) > limit:
            gone.append(run.name)
    return [name for name in gone if name not in last]


def look(folder: Path, queued: Collection[str] = ()) -> list[Kept]:
    """All runs of the controller. `queued`: names that the queue knows, or goes on from."""
    found = [RunFolder(path) for path in folder.iterdir() if not path.name.startswith(".")]
    summaries = {run.name: run.summary() for run in found if run.events()}
    gone_on_from = {
        summary.resumed_from
        for run in found
        if (summary := summaries.get(run.name)) is not None
        and (summary.state == "done" or _has_checkpoint(run))
    }
    kept = []
    for run in found:
        summary = summaries.get(run.name)
        wanted = run.name in queued
        ended = _forgotten(run) if summary is None else summary.ended if summary.over else None
        resumable = (
            summary is not None
            and summary.state != "done"
            and run.name not in gone_on_from
            and _has_checkpoint(run)
        )
        kept.append(Kept(run.name, None if wanted else ended, wanted, resumable))
    return kept


def _forgotten(run: RunFolder) -> float | None:
    """Since when a job lies here that never ran; the queue knows nothing of it either."""
    if run.events_file.exists() or not run.job_file.exists():
        return None
    return run.job_file.stat().st_mtime


def _has_checkpoint(run: RunFolder) -> bool:
    return run.checkpoints.is_dir() and any(run.checkpoints.iterdir())


def leftovers(
    listing: str, known: Mapping[str, Kept], kept_on_phone: int = KEPT_ON_PHONE
) -> list[str]:
    """The folders that a phone need not keep, out of what `onphone.list_runs` prints. Pure."""
    now = float((listing.splitlines() or ["0"])[0])
    gone, seen = [], 0
    for moment, name in sorted(_folders(listing), reverse=True):
        run = known.get(_run(name))
        if run is None:
            # Of another controller, or what a broken copy has left.
            if now - moment > STRANGE_SECONDS:
                gone.append(name)
        elif run.ended is not None and not (run.wanted or run.resumable):
            seen += 1
            if seen > kept_on_phone and now - moment > 86400.0:
                gone.append(name)
    return gone


def _folders(listing: str) -> list[tuple[float, str]]:
    """When each folder changed, by the phone's clock, and its name."""
    words = [line.partition(" ") for line in listing.splitlines()[1:]]
    return [(float(at), name) for at, _, name in words if at.isdigit() and _NAME.fullmatch(name)]


def _run(folder: str) -> str:
    return onphone.run_of(folder.removesuffix(".stage"))


def prune_controller(
    folder: Path, queued: Collection[str] = (), now: float | None = None
) -> list[str]:
    """Remove the folders of runs that have expired; returns their names."""
    moment = time.time() if now is None else now
    for rest in folder.parent.glob(".pruned-*"):  # of a process that was killed here
        shutil.rmtree(rest, ignore_errors=True)
    return [name for name in expired(look(folder, queued), moment) if _remove(folder, name)]


def _remove(folder: Path, name: str) -> bool:
    """At one moment for whoever reads; False while somebody supervises it."""
    run, beside = RunFolder(folder / name), folder.parent / f".pruned-{name}"
    if run.supervised:  # asked without a lock, which a full disk would refuse
        return False
    shutil.rmtree(beside, ignore_errors=True)
    try:
        run.path.rename(beside)
    except FileNotFoundError:  # somebody else was quicker
        return False
    shutil.rmtree(beside, ignore_errors=True)
    return True


async def prune_phones(
    room: Room, phones: Collection[str], queued: Collection[str] = ()
) -> tuple[dict[str, int], dict[str, str]]:
    """Remove what phones need not keep: how many folders of each, and who was not reached."""
    known = {run.name: run for run in look(room.paths.runs, queued)}
    return await _remove_on(room, phones, lambda listing: leftovers(listing, known))


async def _remove_on(
    room: Room, phones: Collection[str], choose: Callable[[str], list[str]]
) -> tuple[dict[str, int], dict[str, str]]:
    listed = await room.fleet.run(phones, onphone.list_runs(), timeout_seconds=10)
    failed = {phone: answer.failure(phone) for phone, answer in listed.items() if not answer.ok}
    gone = {phone: choose(answer.stdout) for phone, answer in listed.items() if answer.ok}

    async def remove(phone: str, names: list[str]) -> None:
        done = await room.fleet.run_on(phone, onphone.remove_runs(names), timeout_seconds=60)
        if not done.ok:
            failed[phone] = done.failure(phone)

    await asyncio.gather(*(remove(phone, names) for phone, names in gone.items() if names))
    return {p: len(names) for p, names in gone.items() if names and p not in failed}, failed


async def prune(room: Room, queued: Collection[str], only: str | None = None) -> Pruned:
    """Remove what has expired, or the one run that a person names, on the controller and on
    all phones. Raises InputError when that is not over."""
    if only is None:
        gone = prune_controller(room.paths.runs, queued)
        folders, failed = await prune_phones(room, room.rack.enrolled, queued)
        return Pruned(gone, folders, failed)
    run = runs.find(room.paths.runs, only)
    if not run.summary().over or only in queued:
        raise InputError(
            f"{only} is not over, or a job of the queue goes on from it; `fleetctl stop {only}` "
            "ends it"
        )
    phones = [p for p in run.phones_of_all_attempts() if p in room.rack.phones]
    if not _remove(room.paths.runs, only):
        raise InputError(f"{only} is looked after by another process just now; try again")
    folders, failed = await _remove_on(
        room, phones, lambda listing: [name for _, name in _folders(listing) if _run(name) == only]
    )
    return Pruned([only], folders, failed)
