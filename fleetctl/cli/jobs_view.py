"""How `jobs` shows a queue and runs: rows of its tables, and all that is to be told of one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleetctl.jobs.runs import RunFolder, Summary
    from fleetctl.serve.outlook import Job

RUN_COLUMNS = ("NAME", "STATE", "STARTED", "TOOK", "ACCURACY", "PHONES")
QUEUE_COLUMNS = ("QUEUED", "PRIORITY", "SINCE", "PHONES", "LIMIT", "WHY IT WAITS")


def run_row(summary: Summary) -> list[object]:
    from fleetctl.rack.nodesets import fold

    state: str = summary.state
    if not summary.over and not summary.supervised:
        state += ", unsupervised"
    started, ended = summary.started, summary.ended
    accuracy = summary.test_accuracy
    return [
        summary.name,
        state,
        time.strftime("%m-%d %H:%M", time.localtime(started)) if started else None,
        f"{(ended or time.time()) - started:.0f} s" if started else None,
        f"{accuracy:.2%}" if accuracy is not None else None,
        fold(summary.phones) if summary.phones else None,
    ]


def heat_words(heated: Mapping[str, tuple[int, int]]) -> str | None:
    """`phone003 12 of 16 samples, phone004 pauses`; None where no phone has less for its heat."""
    told = [
        f"{p} {now} of {of} samples" if now else f"{p} pauses" for p, (now, of) in heated.items()
    ]
    return ", ".join(told) or None


def queue_row(job: Job, now: float) -> list[object]:
    from fleetctl.jobs.jobfile import duration_words

    limit = job.entry.limit_seconds
    return [
        job.name,
        job.entry.priority,
        _ago(now - job.entry.arrived),
        job.phones_words,
        duration_words(limit) if limit else None,
        job.why,
    ]


def queue_lines(job: Job, now: float) -> list[str]:
    """One job of the queue, a line a fact."""
    from fleetctl.jobs.jobfile import duration_words

    entry = job.entry
    facts = {
        "queued": f"{_moment(entry.arrived)} by {entry.who}, {_ago(now - entry.arrived)} ago",
        "waits": job.why,
        "phones": job.phones_words,
        "priority": str(entry.priority),
    }
    if entry.limit_seconds:
        facts["limit"] = duration_words(entry.limit_seconds)
    if entry.resume:
        facts["resumes"] = entry.resume
    if entry.tries:
        facts["failed"] = f"{entry.tries} starts, the last: {entry.trouble}"
    facts["take out"] = f"fleetctl stop {entry.name}"
    return [f"{entry.name}: queued", *_lines(facts)]


def run_lines(run: RunFolder, now: float) -> list[str]:
    """All of a run, a line a fact."""
    from fleetctl.jobs.cost import cost_of
    from fleetctl.jobs.runs import again
    from fleetctl.rack.nodesets import fold

    summary = run.summary()
    accuracy = summary.test_accuracy
    told = "" if accuracy is None else f", test accuracy {accuracy:.2%}"
    facts: dict[str, str] = {}
    if summary.reason:
        facts["why"] = summary.reason.splitlines()[0]
    if summary.phones:
        facts["phones"] = f"{len(summary.phones)}: {fold(summary.phones)}"
    if summary.started:
        took = (summary.ended or now) - summary.started
        facts["started"] = f"{_moment(summary.started)}, {took:.0f} s"
    if summary.resumed_from:
        facts["resumed"] = summary.resumed_from
    if slowed := heat_words(summary.heated):
        facts["heat"] = slowed
    facts["cost"] = cost_of(run.events(), now).words()
    facts |= again(run, summary)
    facts["folder"] = str(run.path)
    return [f"{run.name}: {summary.state}{told}", *_lines(facts)]


def run_json(run: RunFolder, now: float) -> dict[str, Any]:
    from fleetctl.jobs.cost import cost_of
    from fleetctl.jobs.runs import again

    summary = run.summary()
    commands = again(run, summary)
    return {
        **summary.as_json(),
        "cost": cost_of(run.events(), now).as_json(),
        "run_again": commands.get("again"),
        "go_on": commands.get("go on"),
        "folder": str(run.path),
    }


def _lines(facts: dict[str, str]) -> list[str]:
    width = max(map(len, facts))
    return [f"  {name:{width}}  {value}" for name, value in facts.items()]


def _ago(seconds: float) -> str:
    """`42s`, `1h5m`: minutes will do for what is long ago."""
    from fleetctl.jobs.jobfile import duration_words

    return duration_words(seconds if seconds < 120 else seconds - seconds % 60)


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
