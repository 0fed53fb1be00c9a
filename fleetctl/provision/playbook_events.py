"""What Ansible's events say of hosts, tasks and the whole run. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

type Result = Literal["ok", "changed", "failed", "unreachable", "left out", "skipped"]

_RESULTS: dict[str, Result] = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_on_skipped": "skipped",
}
_STATS = "playbook_on_stats"
_TASKS = ("playbook_on_task_start", "playbook_on_handler_task_start")
_REMARKS = ("warning", "system_warning", "error")


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `kind` is ansible-runner's name for it, `text` what Ansible printed for it."""

    kind: str
    play: str = ""
    task: str = ""
    task_id: str = ""
    host: str = ""
    result: Result | None = None
    message: str = ""
    text: str = ""
    stats: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    """Hosts that the playbook left as they are, which says why at its end."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Where and why a host fell out."""

    host: str
    task: str
    message: str
    reached: bool


def parse_event(document: Mapping[str, Any]) -> Event:
    """An event out of ansible-runner's document; what it lacks stays empty."""
    data = document.get("event_data") or {}
    kind = str(document.get("event", ""))
    answer = data.get("res")
    answer = answer if isinstance(answer, Mapping) else {}
    result = _RESULTS.get(kind)
    if result == "ok" and answer.get("changed"):
        result = "changed"
    if result == "failed" and data.get("ignore_errors"):
        result = "ok"
    stats = {}
    if kind == _STATS:
        parts = ("ok", "changed", "failures", "dark", "skipped", "rescued", "ignored")
        stats = {part: dict(data.get(part) or {}) for part in parts}
    return Event(
        kind,
        play=str(data.get("play") or ""),
        task=str(data.get("task") or ""),
        task_id=str(data.get("task_uuid") or ""),
        host=str(data.get("host") or ""),
        result=result,
        message=_message(answer) if result in ("failed", "unreachable") else "",
        text=str(document.get("stdout") or ""),
        stats=stats,
        left_out=frozenset(_left_out(data)),
    )


def _left_out(data: Mapping[str, Any]) -> Iterator[str]:
    """The names in the statistic `not_ready`, which holds a reason by names (`rack_report`)."""
    for names in (data.get("artifact_data") or {}).get("not_ready") or {}:
        yield from str(names).split(", ")


@dataclass
class Task:
    """A task and what its hosts have come to; `started` holds who works at it."""

    id: str
    play: str
    name: str
    started: set[str] = field(default_factory=set)
    results: dict[str, Result] = field(default_factory=dict)

    @property
    def waiting(self) -> set[str]:
        return self.started - self.results.keys()

    def count(self, *results: Result) -> int:
        return sum(result in results for result in self.results.values())


class Tracker:
    """Follows a run event by event."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.failures: dict[str, Failure] = {}
        self.stats: Mapping[str, Mapping[str, int]] | None = None
        self.left_out: frozenset[str] = frozenset()
        self.remarks: list[str] = []
        """What was said after the end, such as who was not ready or not reached, and why."""

    @property
    def task(self) -> Task | None:
        return self.tasks[-1] if self.tasks else None

    def take(self, event: Event) -> None:
        if event.kind in _TASKS:
            self.tasks.append(Task(event.task_id, event.play, event.task))
        elif event.kind == "runner_on_start":
            self._of(event).started.add(event.host)
        elif event.result is not None:
            task = self._of(event)
            task.started.add(event.host)
            task.results[event.host] = event.result
            if event.result in ("failed", "unreachable"):
                reached = event.result == "failed"
                failure = Failure(event.host, event.task, event.message, reached)
                self.failures.setdefault(event.host, failure)
        elif event.kind == _STATS:
            self.stats, self.left_out = event.stats, event.left_out
        elif self.stats is not None and event.text.strip():
            self.remarks += [line for line in event.text.splitlines() if line.strip()]
        elif event.kind in _REMARKS and event.text.strip():
            self.remarks.append(event.text.strip())

    def _of(self, event: Event) -> Task:
        for task in reversed(self.tasks):
            if task.id == event.task_id:
                return task
        self.tasks.append(Task(event.task_id, event.play, event.task))
        return self.tasks[-1]

    def hosts(self) -> dict[str, Result]:
        """What became of each host that was part of it.

        From Ansible's own counts if the run came to its end: a failure may have been rescued.
        """
        if self.stats is None:
            found: dict[str, Result] = {}
            for task in self.tasks:
                for host, result in task.results.items():
                    if result == "changed" or host not in found:
                        found[host] = "ok" if result == "skipped" else result
            for host, failure in self.failures.items():
                found[host] = "failed" if failure.reached else "unreachable"
            return found
        counts = self.stats
        hosts = sorted({host for part in counts.values() for host in part})
        found = {host: _result(counts, host) for host in hosts}
        left = {host for host in self.left_out if found.get(host) in ("ok", "skipped")}
        return {host: "left out" if host in left else result for host, result in found.items()}

    def failed(self, among: Collection[str]) -> list[str]:
        """Those hosts of `among` that failed or were not reached, in its order."""
        results = self.hosts()
        return [name for name in among if results.get(name) in ("failed", "unreachable")]


def _result(counts: Mapping[str, Mapping[str, int]], host: str) -> Result:
    order: tuple[tuple[str, Result], ...] = (
        ("failures", "failed"),
        ("dark", "unreachable"),
        ("changed", "changed"),
        ("ok", "ok"),
    )
    return next((result for part, result in order if counts.get(part, {}).get(host)), "skipped")


def _message(answer: Mapping[str, Any]) -> str:
    """Why a task failed, in one line."""
    said = answer.get("msg") or answer.get("stderr") or answer.get("module_stderr") or ""
    lines = [line.strip() for line in str(said).splitlines() if line.strip()]
    return " / ".join(lines[:3]) or "no reason given"
