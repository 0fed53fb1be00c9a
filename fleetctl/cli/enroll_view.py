"""How an enrolment is watched: a table that changes on a terminal, else a line a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleetctl.cli.output import make_table, progress

if TYPE_CHECKING:
    from rich.table import Table

    from fleetctl.provision.enrol_look import Report

STEPS = ("look", "settings", "apps", "key", "ssh", "network", "done")
_MARKS = {"enrolled": "done", "known": "enrolled already"}


@contextmanager
def watching() -> Iterator[Callable[[Sequence[Report]], None]]:
    """What is to be called whenever a report has changed."""
    console = progress()
    if console.is_terminal:
        from rich.live import Live

        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield lambda reports: live.update(_table(reports))
        return
    said: dict[str, str] = {}

    def say(reports: Sequence[Report]) -> None:
        for report in reports:
            line = f"{report.name or report.serial}: {_at(report)}"
            if said.get(report.link) != line:
                said[report.link] = line
                console.print(line, markup=False)

    yield say


def _at(report: Report) -> str:
    if report.end:
        return _MARKS.get(report.end, f"{report.end} at {report.step}: {report.reason}")
    return f"{report.step}: {report.note}" if report.note else report.step


def _table(reports: Sequence[Report]) -> Table:
    return make_table(
        ["SERIAL", "PHONE", "", "STEP"],
        ((report.serial, report.name, _bar(report), _at(report)) for report in reports),
    )


def _bar(report: Report) -> str:
    done = STEPS.index(report.step)
    return "█" * done + "░" * (len(STEPS) - 1 - done)
