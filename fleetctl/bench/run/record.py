"""All that a run's folder tells, read once: what is damaged or missing is said, never guessed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fleetctl.jobs import looks, past
from fleetctl.jobs.cost import Cost, cost_of
from fleetctl.jobs.launch import job_of
from fleetctl.jobs.lines import read_lines
from fleetctl.jobs.looks import Look
from fleetctl.jobs.runs import (
    PHONES_FILE,
    PLAN_FILE,
    PROGRESS_FILE,
    RunFolder,
    Summary,
    again,
)
from fleetctl.rack import InputError
from trainer.formats import (
    EndEvent,
    EvaluationEvent,
    Event,
    FormatError,
    IterationEvent,
    Plan,
    SharesEvent,
    event_from_json,
)

CLOCK_SLACK_SECONDS = 5.0
"""So far the head phone's clock may be off before its times are moved."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt. Times are the controller's, in Unix seconds; `phones` are in rank order."""

    number: int
    phones: tuple[str, ...]
    began: float
    ended: float
    iterations: tuple[IterationEvent, ...] = ()
    evaluations: tuple[EvaluationEvent, ...] = ()
    looks: tuple[Look, ...] = ()
    plan: Plan | None = None
    shares: tuple[SharesEvent, ...] = ()
    """Changes of the plan between two iterations."""

    def samples_at(self, iteration: int | None) -> dict[str, int]:
        """Of each phone in that iteration."""
        found = self.samples
        for change in self.shares:
            whole = len(change.samples_per_rank) == len(self.phones)
            if whole and iteration is not None and change.iteration < iteration:
                found = dict(zip(self.phones, change.samples_per_rank, strict=True))
        return found

    @property
    def samples(self) -> dict[str, int]:
        """Of each phone in an iteration; empty where no plan says."""
        if self.plan is None or len(self.plan.samples_per_rank) != len(self.phones):
            return {}
        return dict(zip(self.phones, self.plan.samples_per_rank, strict=True))


@dataclass(frozen=True, slots=True)
class RunRecord:
    """`missing`: sentences about what is not there or not whole. `read_at` in Unix seconds."""

    name: str
    folder: Path
    summary: Summary
    read_at: float
    events: tuple[dict[str, Any], ...]
    attempts: tuple[Attempt, ...]
    trains: bool
    """Whether the trainer runs it; a command of the user's own leaves no training records."""
    cost: Cost
    commands: dict[str, str]
    facts: dict[str, str] = field(default_factory=dict)
    """What it ran, and with which versions."""
    missing: tuple[str, ...] = ()

    @property
    def began(self) -> float:
        return self.summary.started or self.events[0]["time"]

    @property
    def iterations(self) -> list[IterationEvent]:
        """Of all attempts, each once: what a later attempt did again counts."""
        found = {each.iteration: each for attempt in self.attempts for each in attempt.iterations}
        return [found[number] for number in sorted(found)]

    @property
    def watt_hours(self) -> dict[str, float]:
        """By phone, as far as measured."""
        for event in reversed(self.events):
            if event["kind"] == "energy":
                return {phone: float(value) for phone, value in event["watt_hours"].items()}
        return {}


def read_run(run: RunFolder, now: float) -> RunRecord:
    """Raises InputError for a folder that is no run's."""
    events = run.whole_events()
    if not events.records:
        raise InputError(f"{run.name} is no run: {run.events_file} tells no event")
    missing = [_damaged("events.jsonl", events.damaged)] if events.damaged else []
    summary = run.summary()
    trains = any(run.path.rglob(PLAN_FILE))
    attempts = _attempts(run, events.records, now, missing)
    return RunRecord(
        name=run.name,
        folder=run.path,
        summary=summary,
        read_at=now,
        events=tuple(events.records),
        attempts=tuple(attempts),
        trains=trains,
        cost=cost_of(events.records, now),
        commands=again(run, summary),
        facts=_facts(run, missing),
        missing=(*missing, *_gaps(summary, attempts, events.records, trains=trains)),
    )


def _damaged(name: str, lines: int) -> str:
    return f"{name}: {lines} damaged {'line' if lines == 1 else 'lines'} left out"


def _attempts(
    run: RunFolder, events: Sequence[dict[str, Any]], now: float, missing: list[str]
) -> list[Attempt]:
    over = run.summary().ended
    spans = _spans(events, over or now)
    found = []
    for attempt, (began, ended) in zip(past.attempts(events), spans, strict=True):
        folder = run.folder_of(attempt.number)
        place = "" if attempt.number == 1 else f"attempt {attempt.number}, "
        told = _progress(folder / PROGRESS_FILE, place, missing)
        told = _on_our_clock(told, began, ended, place, missing)
        seen = looks.read(folder / PHONES_FILE)
        if seen.damaged:
            missing.append(_damaged(f"{place}{PHONES_FILE}", seen.damaged))
        found.append(
            Attempt(
                attempt.number,
                attempt.phones,
                began,
                ended,
                tuple(event for event in told if isinstance(event, IterationEvent)),
                tuple(event for event in told if isinstance(event, EvaluationEvent)),
                seen.looks,
                _plan(folder / PLAN_FILE, place, missing),
                tuple(event for event in told if isinstance(event, SharesEvent)),
            )
        )
    return found


def _spans(events: Sequence[dict[str, Any]], end: float) -> list[tuple[float, float]]:
    """From when to when each attempt ran, by the controller's clock."""
    spans: list[tuple[float, float]] = []
    for event in events:
        match event["kind"]:
            case "created" | "attempt":
                spans.append((event["time"], end))
            case "started" if spans:
                spans[-1] = (event["time"], end)
            case "noticed" | "attempt-ended" if spans and spans[-1][1] == end:
                spans[-1] = (spans[-1][0], event["time"])
    return spans


def _progress(path: Path, place: str, missing: list[str]) -> list[Event]:
    lines = read_lines(path)
    found, damaged = [], lines.damaged
    for record in lines.records:
        try:
            found.append(event_from_json(json.dumps(record)))
        except FormatError:
            damaged += 1
    if damaged:
        missing.append(_damaged(f"{place}{PROGRESS_FILE}", damaged))
    return found


def _on_our_clock(
    told: Sequence[Event], began: float, ended: float, place: str, missing: list[str]
) -> list[Event]:
    """Times of a head phone whose clock is wrong, moved to where they must have been."""
    if not told:
        return []
    first, last = told[0], told[-1]
    early, late = began - CLOCK_SLACK_SECONDS, ended + CLOCK_SLACK_SECONDS
    if early <= first.time and last.time <= late:
        return list(told)
    shift = ended - last.time if isinstance(last, EndEvent) else began - first.time
    missing.append(
        f"{place}the head phone's clock was about {-shift:+.0f} s off: its times are moved"
    )
    return [replace(event, time=event.time + shift) for event in told]


def _plan(path: Path, place: str, missing: list[str]) -> Plan | None:
    if not path.exists():
        return None
    try:
        return Plan.read(path)
    except (FormatError, ValueError) as error:
        missing.append(f"{place}{PLAN_FILE} cannot be read: {error}")
        return None


def _facts(run: RunFolder, missing: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        job = job_of(run)
    except (InputError, OSError, ValueError) as error:
        missing.append(f"job.yml cannot be read: {error}".splitlines()[0])
    else:
        train = job.train
        if train is not None:
            found["trains"] = (
                f"{train.model.name} on {train.data}, {train.epochs} epochs, "
                f"global batch {train.global_batch}"
            )
        if job.command:
            found["command"] = " ".join(job.command)
    newest = run.attempt_folder / "versions.json"
    try:
        kept = newest if newest.exists() else run.path / "versions.json"
        for what, told in json.loads(kept.read_text()).items():
            words = told
            if isinstance(told, dict):
                words = "; ".join(f"{version} on {names}" for version, names in told.items())
            found[str(what)] = str(words)
    except (OSError, ValueError, AttributeError):
        missing.append("versions.json: which versions the phones had is not known")
    return found


def _gaps(
    summary: Summary, attempts: Sequence[Attempt], events: Sequence[dict[str, Any]], *, trains: bool
) -> list[str]:
    """What a page of this run cannot show, and why."""
    found = []
    if not summary.over:
        found.append("The run is not over: this is how far it was when the page was made.")
    started = any(event["kind"] == "started" for event in events)
    if not started:
        found.append("No rank of it ever started: there is nothing to draw.")
    elif not trains and not any(attempt.iterations for attempt in attempts):
        found.append(
            "It ran a command of its own, not the trainer: there is no loss, accuracy, throughput "
            "or time of an iteration."
        )
    elif not any(attempt.iterations for attempt in attempts):
        found.append("No iteration was recorded: no loss, throughput or time of an iteration.")
    elif not any(attempt.evaluations for attempt in attempts):
        found.append("It has not evaluated on test data: no accuracy.")
    seen = [look for attempt in attempts for each in attempt.looks for look in each.phones.values()]
    if started and not seen:
        found.append(
            "Nobody looked at its phones while it ran (it was shorter than 10 s, nobody supervised "
            "it, or it is of before fleetctl kept phones.jsonl): no temperatures, no stragglers."
        )
    elif started and all(s.battery_celsius is None and s.hottest_celsius is None for s in seen):
        found.append("Its phones told no temperature: does their exporter run?")
    if started and not any(event["kind"] == "energy" for event in events):
        found.append(
            "Energy was not measured: Prometheus must have recorded the power of switch ports or "
            "of discharging batteries for most of the run, and the run be over."
        )
    return found
