"""Put a job into the queue, and take it out again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence

from fleetctl.jobs import names, runs, staging
from fleetctl.jobs.choose import Wish
from fleetctl.jobs.jobfile import Job, JobError, write_job
from fleetctl.jobs.launch import Request, refuse_without_torch
from fleetctl.jobs.planning import build_plan
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import Rack, RackPaths
from fleetctl.rack.nodesets import fold
from fleetctl.serve.queue import Entry, Queue


def enqueue(rack: Rack, paths: RackPaths, queue: Queue, request: Request, who: str) -> Entry:
    """Queue the job: first its run folder, with its files as they are now, then its row.

    Raises JobError and the like for a job that could never start; nothing is left then.
    """
    _refuse_hopeless(rack, paths, request)
    run = (
        names.claim(paths.runs, request.name)
        if request.name
        else runs.create(paths.runs, request.job.name)
    )
    try:
        write_job(request.job, run.job_file)
        for file in request.files:
            (run.path / "files").mkdir(exist_ok=True)
            shutil.copy2(file, run.path / "files" / file.name)
        entry = entry_of(run.name, request, who)
        queue.add(entry)
    except BaseException:
        shutil.rmtree(run.path)
        raise
    return queue.get(run.name) or entry


def entry_of(name: str, request: Request, who: str) -> Entry:
    """The job as the queue sees it, if it came now."""
    wish, job = request.wish, request.job
    return Entry(
        number=0,
        name=name,
        arrived=time.time(),
        who=who,
        priority=job.priority,
        least=wish.least,
        most=wish.most,
        spares=wish.spares,
        among=wish.named,
        limit_seconds=job.time_limit,
        resume=request.resume.name if request.resume else None,
    )


def wish_of(entry: Entry, phones: Sequence[str], ranks: int, spares: int) -> Wish:
    """What is asked of phones that a job of the queue is given; the first `ranks` are to train."""
    return Wish(
        offered=tuple(phones),
        first=tuple(phones[:ranks]),
        count=None if entry.most is None else min(entry.most, ranks),
        minimum=entry.least,
        spares=spares,
    )


def _refuse_hopeless(rack: Rack, paths: RackPaths, request: Request) -> None:
    """What no wait could help: places without a phone, phones without torch, a data set that is
    not there, a plan that fits no phones."""
    if request.resume is not None:
        _refuse_resumption(request.resume)
    if empty := [phone for phone in request.wish.named if not rack.phones[phone].enrolled]:
        raise JobError(
            f"{fold(empty)}: no phone is in that place of the rack; `fleetctl enroll` one, or "
            "name others"
        )
    job: Job = request.job
    if job.train is None:
        return
    refuse_without_torch(rack)
    data = staging.read_data(paths.data, job.train.data)
    wish = request.wish
    phones = rack.ring(wish.named or None)[: wish.most or wish.least]
    switches = [rack.phones[phone].switch or "" for phone in phones]
    build_plan(job.train, job.name, phones, None, switches=switches, data=data.manifest)


def _refuse_resumption(old: RunFolder) -> None:
    summary = old.summary()
    if summary.state == "done":
        raise JobError(f"run {old.name} is done; there is nothing to resume")
    if not summary.over:
        raise JobError(f"run {old.name} is not over; stop it first with `fleetctl stop {old.name}`")


def withdraw(paths: RackPaths, queue: Queue, name: str, who: str) -> None:
    """Take a job out that waits; its folder stays and tells so. Raises NotWaiting."""
    queue.take_out(name)
    end_unstarted(RunFolder(paths.runs / name), "stopped", f"taken out of the queue by {who}")


def end_unstarted(run: RunFolder, state: str, reason: str) -> None:
    """The events of a job that ends before it had a phone."""
    if not run.path.exists():
        return
    if not run.events():
        run.record("created", phones=[])
    if not run.summary().over:
        run.record("ended", state=state, reason=reason)
