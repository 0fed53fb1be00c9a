"""What the queue looks like to whoever asks: who waits, and why, by the rule that serve goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fleetctl.jobs import limit
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import Rack, RackPaths
from fleetctl.serve.board import board_of
from fleetctl.serve.decide import Decision, decide
from fleetctl.serve.lock import Server, server
from fleetctl.serve.queue import Entry, Queue
from fleetctl.state import State


@dataclass(frozen=True, slots=True)
class Job:
    """A job that has not begun to run, and why it waits."""

    entry: Entry
    why: str

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def phones_words(self) -> str:
        """`4`, `2 to 4`, `phone001, phone002`, with the spares."""
        entry = self.entry
        if entry.among:
            words = ", ".join(entry.among) if len(entry.among) <= 3 else f"{len(entry.among)} named"
        elif entry.most is None:
            words = f"{entry.least} or more"
        elif entry.most == entry.least:
            words = str(entry.least)
        else:
            words = f"{entry.least} to {entry.most}"
        return f"{words} and {entry.spares} spare" if entry.spares else words

    def as_json(self) -> dict[str, Any]:
        entry = self.entry
        return {
            "name": entry.name,
            "state": "queued" if entry.waits else "starting",
            "why": self.why,
            "who": entry.who,
            "arrived": entry.arrived,
            "priority": entry.priority,
            "least": entry.least,
            "most": entry.most,
            "spares": entry.spares,
            "among": list(entry.among),
            "time_limit_seconds": entry.limit_seconds,
            "resume": entry.resume,
            "failed_starts": entry.tries,
            "phones": list(entry.phones),
        }


@dataclass(frozen=True, slots=True)
class Outlook:
    """`served`: the process that starts jobs, if one does."""

    jobs: Sequence[Job]
    served: Server | None


def outlook(rack: Rack, paths: RackPaths, state: State, now: float) -> Outlook:
    """The jobs that wait, in the order in which they will start, after those that start now."""
    served = server(paths.serve_lock)
    if not paths.queue_db.exists():
        return Outlook((), served)
    with Queue(paths.queue_db) as queue:
        entries = queue.jobs()
    starting = [e for e in entries if not e.waits and not RunFolder(paths.runs / e.name).events()]
    waiting = {entry.name: entry for entry in entries if entry.waits}
    jobs = [Job(entry, "starts now") for entry in starting]
    if waiting:
        decision = decision_now(rack, paths, state, entries, now)
        jobs += [Job(waiting[start.name], "starts in a moment") for start in decision.starts]
        jobs += [Job(waiting[name], why) for name, why in decision.waits.items()]
    return Outlook(jobs, served)


def decision_now(
    rack: Rack, paths: RackPaths, state: State, entries: Sequence[Entry], now: float
) -> Decision:
    """What serve would decide at this moment. `entries`: the whole queue."""
    facts = state.phones()
    others = {known.run for known in facts.values() if known.run} - {e.name for e in entries}
    ends = {name: limit.ends_at(RunFolder(paths.runs / name)) for name in others}
    limits = {name: end for name, end in ends.items() if end is not None}
    board = board_of(rack, facts, entries, limits, now)
    waiting = [entry.waiting() for entry in entries if entry.waits]
    return decide(board.floor, waiting, board.running, board.unusable, now)
