"""What `provision` shows: progress by task and phone on stderr, the outcome by phones on stdout."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from fleetctl.cli.output import print_table, progress
from fleetctl.rack.nodesets import fold, fold_sentences

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from fleetctl.provision.history import Record
    from fleetctl.provision.playbook_events import Event, Task, Tracker

MOST_PHONES_SHOWN = 8
"""Up to so many phones have a line of their own while they work."""

_BAR_COLUMNS = 24


class Progress:
    """On a terminal a few lines that are redrawn, else one line a task when the next begins.

    With `whole` Ansible's own output goes by on stdout as well, with `diff` its differences.
    """

    def __init__(self, tracker: Tracker, *, whole: bool, diff: bool) -> None:
        self._tracker, self._whole, self._diff = tracker, whole, diff
        self._console = progress()
        self._live: Live | None = None
        self._began = time.monotonic()
        self._told: set[str] = set()
        self._last: Task | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._whole:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
        self._tell_task()

    def remark(self, text: str) -> None:
        with suppress(OSError):  # a terminal that has gone away: the phones come first
            self._console.print(text, markup=False, soft_wrap=True)

    def take(self, event: Event) -> None:
        """Show what an event, which the tracker has taken already, says at once."""
        if event.text and (self._whole or (self._diff and event.kind == "runner_on_file_diff")):
            with suppress(OSError):
                click.echo(event.text)
        if event.result in ("failed", "unreachable") and not self._whole:
            failure = self._tracker.failures.get(event.host)
            if failure is not None and event.host not in self._told:
                self._told.add(event.host)
                self.remark(f"{event.host} {event.result}: {event.task}: {_short(event.message)}")
        if self._tracker.task is not self._last:
            self._tell_task()
            self._last = self._tracker.task

    def refresh(self) -> None:
        if self._live is not None:
            elapsed = time.monotonic() - self._began
            with suppress(OSError):
                self._live.update(render(self._tracker, elapsed), refresh=True)

    def _tell_task(self) -> None:
        """The line of a task that is through, where no terminal redraws one."""
        task, self._last = self._last, None
        if task is not None and task.results and not self._whole and self._live is None:
            self.remark(task_line(task))


def task_line(task: Task) -> str:
    """`Meet the phones: Make first contact: 5 ok, 1 failed`"""
    counts = {
        "ok": task.count("ok"),
        "changed": task.count("changed"),
        "failed": task.count("failed"),
        "unreachable": task.count("unreachable"),
        "skipped": task.count("skipped"),
    }
    said = ", ".join(f"{count} {result}" for result, count in counts.items() if count)
    return f"{task.play}: {task.name}: {said}" if task.play else f"{task.name}: {said}"


def render(tracker: Tracker, elapsed_seconds: float) -> RenderableType:
    """The lines that are redrawn: the task and how far it is, who is still at it, who fell out."""
    from rich.text import Text

    task = tracker.task
    elapsed = time.strftime("%H:%M:%S", time.gmtime(elapsed_seconds))
    if task is None:
        return Text(f"{elapsed}  reading the rack and the playbook", no_wrap=True)
    lines = [f"{elapsed}  {task.play}"]
    through, of = len(task.results), len(task.started)
    filled = _BAR_COLUMNS * through // of if of else 0
    bar = "━" * filled + "╌" * (_BAR_COLUMNS - filled)
    lines.append(f"{bar} {through} of {of}  {task.name}")
    waiting = sorted(task.waiting)
    if len(waiting) <= MOST_PHONES_SHOWN:
        lines += [f"  {name} works" for name in waiting]
    else:
        lines.append(f"  {fold(waiting)} work")
    if tracker.failures:
        lines.append(f"  fell out: {fold(tracker.failures)}")
    text = Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
    text.stylize("bold", 0, len(lines[0]))
    return text


def print_outcome(
    record: Record, tracker: Tracker, uncertain: Mapping[str, str], log: Path
) -> None:
    """Who came to what on stdout; reasons, and where all of it is written, on stderr."""
    groups: dict[str, list[str]] = {}
    for host, result in record.phones.items():
        groups.setdefault(result, []).append(host)
    print_table(
        ("RESULT", "NUMBER", "WHO"),
        (
            (result, len(groups[result]), fold(groups[result]))
            for result in ("failed", "unreachable", "left out", "changed", "ok", "skipped")
            if result in groups
        ),
    )
    for line in (*remarks(record, tracker, uncertain), f"log: {log}"):
        click.echo(line, err=True)


def remarks(record: Record, tracker: Tracker, uncertain: Mapping[str, str]) -> list[str]:
    """Reasons, each once for all phones that share it."""
    failures = fold_sentences(
        (host, f"{host}: {_short(why)}") for host, why in record.failures.items()
    )
    doubts = fold_sentences(
        (name, f"{name}: what it was told to do may still run there: {why}")
        for name, why in uncertain.items()
    )
    return [*failures, *dict.fromkeys(tracker.remarks), *doubts]


def record_json(record: Record) -> dict[str, Any]:
    return asdict(record)


def as_json(rack: str, record: Record, uncertain: Mapping[str, str]) -> dict[str, Any]:
    """The document of `provision -o json`."""
    return {"rack": rack, **record_json(record), "uncertain": dict(uncertain)}


def history_rows(records: Sequence[Record]) -> Iterable[tuple[object, ...]]:
    for record in records:
        bad = sum(result in ("failed", "unreachable") for result in record.phones.values())
        left = sum(result == "left out" for result in record.phones.values())
        number = f"{len(record.phones)} hosts" + (f", {bad} failed" if bad else "")
        number += f", {left} left out" if left else ""
        code = record.exit_code
        yield (
            *(record.run, record.who, f"{record.seconds:.0f}", code, number),
            " ".join(record.arguments) or "all",
        )


def _short(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
