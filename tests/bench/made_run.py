"""Run folders as a supervisor would have left them, for tests of the report."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fleetctl.jobs.jobfile import read_job
from fleetctl.jobs.looks import Kept, Look, PhoneLook
from fleetctl.jobs.planning import build_plan
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.verdict import Verdict
from trainer.formats import (
    EndEvent,
    EvaluationEvent,
    Event,
    IterationEvent,
    StartEvent,
    event_to_json,
)

BEGAN = 1_700_000_000.0
STEP_SECONDS = 2.0
JOB = """train:
  model: digits-cnn
  data: digits
  epochs: 30
  global_batch: 1380
  optimizer: {name: sgd, lr: 0.1}
"""


def names(count: int) -> list[str]:
    return [f"phone{number:03}" for number in range(1, count + 1)]


class MadeRun:
    """A run that grows by what is called on it; `now` is the controller's clock."""

    def __init__(self, path: Path, phones: int = 4, *, job: str = JOB) -> None:
        path.mkdir(parents=True)
        self.run = RunFolder(path)
        self.phones = names(phones)
        self.number = 1
        self.now = BEGAN
        self.done = 0
        self.clock_off = 0.0
        """Of the head phone."""
        self.run.job_file.write_text(job)
        (path / "versions.json").write_text('{"fleetctl": "1", "openmpi": {"5.0": "all"}}')
        self.event("created", phones=self.phones, spares=[])

    def event(self, kind: str, **facts: Any) -> None:
        line = json.dumps({"time": self.now, "kind": kind, **facts})
        with self.run.events_file.open("a") as file:
            file.write(line + "\n")

    def start(self, *, plan: bool = True) -> None:
        if plan:
            train = read_job(self.run.job_file).train
            assert train is not None
            build_plan(train, self.run.attempt_name, self.phones).write(self.run.plan_file)
        self.now += 5
        self.event("started", head=self.phones[0], pid=1)
        if plan:
            self.progress(StartEvent(self.now, self.done, 100_000))

    def progress(self, event: Event) -> None:
        event = replace(event, time=event.time + self.clock_off)
        with self.run.progress_file.open("a") as file:
            file.write(event_to_json(event) + "\n")

    def iterate(self, count: int, *, heat: bool = True, slow: str | None = None) -> None:
        """So many iterations; `heat`: the phones are looked at every fifth. One may be slow."""
        for _ in range(count):
            self.now += STEP_SECONDS
            self.done += 1
            at = self.now
            loss = 2.3 * math.exp(-self.done / 80) + 0.05 * (1 + math.sin(self.done))
            self.progress(
                IterationEvent(
                    at, self.done, self.done // 40, loss, 96, 48.0 + self.done % 5, 1.5, 0.6, 0.4
                )
            )
            if self.done % 40 == 0:
                accuracy = 1 - 0.9 * math.exp(-self.done / 60)
                self.progress(EvaluationEvent(at, self.done, self.done // 40, loss, accuracy))
            if heat and self.done % 5 == 0:
                self.look(slow)

    def look(self, slow: str | None = None) -> None:
        warm = 30 + 15 * (1 - math.exp(-(self.now - BEGAN) / 600))
        plan = self.run.plan()
        shares = plan.samples_per_rank if plan else (100,) * len(self.phones)
        phones = {}
        for rank, phone in enumerate(self.phones):
            factor = (1.6 if phone == slow else 1.0) * (1 + 0.02 * (rank % 7)) * (warm / 30) ** 0.4
            phones[phone] = PhoneLook(
                *(self.done, 0.02 * shares[rank] * factor, 0.6, 0.4),
                battery_celsius=round(warm + rank % 5, 1),
                hottest_celsius=round(warm + 8 + rank % 5, 1),
                throttled_seconds=max(0.0, self.now - BEGAN - 300) if rank % 4 == 0 else 0.0,
            )
        Kept(self.run.phones_file).add(Look(self.now, phones))

    def fail(self, lost: str, why: str) -> None:
        self.event("suspect", phone=lost, reason=why)
        self.event("attempt-ended", **verdict("failed", why, {lost: why}))

    def again(self, without: str) -> None:
        """The next attempt, from 20 iterations before."""
        self.number += 1
        self.done -= 20
        self.now += 15
        self.phones = [phone for phone in self.phones if phone != without]
        facts = {"number": self.number, "phones": self.phones, "iteration": self.done}
        self.event("attempt", **facts, spares=[])
        self.run.attempt_folder.mkdir(parents=True)
        self.start()

    def end(self, state: str = "done", reason: str | None = None, **facts: Any) -> None:
        if state == "done" and self.run.plan_file.exists():
            self.progress(EndEvent(self.now, self.done, "done", None, 0.98))
        self.event("attempt-ended", **verdict(state, reason, {}))
        self.event("ended", state=state, reason=reason, test_accuracy=None, left={}, **facts)


def verdict(state: str, reason: str | None, culprits: dict[str, str]) -> dict[str, Any]:
    return asdict(Verdict(state, reason, culprits, None))  # type: ignore[arg-type]
