"""fleetctl jobs"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, output_option, pass_app
from fleetctl.cli.output import print_json, print_table, progress

if TYPE_CHECKING:
    from fleetctl.jobs.runs import Summary


@click.command()
@output_option
@pass_app
def command(app: App, output: str) -> None:
    """List runs, newest first.

    The state of a run that nobody supervises is asked of its phones; one that has ended in the
    meantime is finished: its records are collected and its phones are given back.
    """
    from fleetctl.jobs import attach, runs
    from fleetctl.jobs.launch import Room
    from fleetctl.rack.nodesets import fold
    from fleetctl.remote import Fleet

    async def refresh() -> None:
        console = progress()
        async with Fleet(app.rack, app.paths) as fleet:
            room = Room(fleet, app.rack, app.state, app.paths, console.print)
            await attach.refresh_all(room)

    attach.release_forgotten(app.state, app.paths.runs)
    known = runs.all_runs(app.paths.runs)
    if any(not run.summary().over for run in known):
        asyncio.run(refresh())
    summaries = [run.summary() for run in known]
    if output == "json":
        print_json({"jobs": [summary.as_json() for summary in summaries]})
        return
    columns = ["NAME", "STATE", "STARTED", "TOOK", "ACCURACY", "PHONES"]
    print_table(columns, [_row(summary, fold(summary.phones)) for summary in summaries])
    for summary in summaries:
        # Below the table: in a column of it, a sentence would be squeezed to a word a line.
        if summary.reason:
            click.echo(f"{summary.name}: {summary.reason.splitlines()[0]}")


def _row(summary: Summary, phones: str) -> list[object]:
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
        phones,
    ]
