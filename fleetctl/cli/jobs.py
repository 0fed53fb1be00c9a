"""fleetctl jobs"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, output_option, pass_app, run_argument
from fleetctl.cli.output import print_json, print_table, progress
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleetctl.jobs.runs import RunFolder


@click.command()
@run_argument
@click.option(
    "--prune",
    is_flag=True,
    help="Remove what long ago ended, here and on phones; or RUN, which must be over.",
)
@output_option
@click.pass_context
@pass_app
def command(app: App, ctx: click.Context, run_name: str | None, prune: bool, output: str) -> None:
    """List jobs: queued ones and why they wait, then runs, newest first. Or tell all of one RUN:
    why it ended, what it cost, how to run it again.

    The state of a run that nobody supervises is asked of its phones; one that has ended in the
    meantime is finished: its records are collected and its phones are given back.
    """
    from fleetctl.jobs import holding, runs

    if prune:
        ctx.exit(asyncio.run(_prune(app, run_name, output)))
    holding.release_forgotten(app.state, app.paths.runs)
    known = runs.all_runs(app.paths.runs)
    if any(not run.summary().over for run in known):
        asyncio.run(_refresh(app))
    if run_name is None:
        _list(app, known, output)
    else:
        tell(app, run_name, output)


async def _prune(app: App, run_name: str | None, output: str) -> ExitCode:
    from fleetctl.jobs import retention
    from fleetctl.jobs.room import Room
    from fleetctl.remote import Fleet
    from fleetctl.serve.queue import Queue, names_of

    queued: set[str] = set()
    if app.paths.queue_db.exists():
        with Queue(app.paths.queue_db) as queue:
            queued = names_of(queue.jobs())
    async with Fleet(app.rack, app.paths) as fleet:
        room = Room(fleet, app.rack, app.state, app.paths, progress().print)
        done = await retention.prune(room, queued, run_name)
    for why in done.failed.values():
        click.echo(f"not removed there: {why}", err=True)
    if output == "json":
        print_json({"removed": done.runs, "folders": done.folders, "failed": done.failed})
    else:
        click.echo(
            f"removed here: {', '.join(done.runs) or 'nothing'}; "
            f"on phones: {sum(done.folders.values())} folders"
        )
    return ExitCode.SOME_PHONES_FAILED if done.failed else ExitCode.DONE


async def _refresh(app: App) -> None:
    from fleetctl.jobs import attach
    from fleetctl.jobs.launch import Room
    from fleetctl.remote import Fleet

    async with Fleet(app.rack, app.paths) as fleet:
        room = Room(fleet, app.rack, app.state, app.paths, progress().print)
        await attach.refresh_all(room)


def _list(app: App, known: Sequence[RunFolder], output: str) -> None:
    from fleetctl.cli.jobs_view import (
        QUEUE_COLUMNS,
        RUN_COLUMNS,
        heat_words,
        queue_row,
        run_json,
        run_row,
    )
    from fleetctl.serve.outlook import outlook

    now = time.time()
    queue = outlook(app.rack, app.paths, app.state, now)
    if output == "json":
        print_json(
            {
                "served": queue.served is not None,
                "queue": [job.as_json() for job in queue.jobs],
                "jobs": [run_json(run, now) for run in known],
            }
        )
        return
    if queue.jobs:
        print_table(QUEUE_COLUMNS, [queue_row(job, now) for job in queue.jobs])
        if queue.served is None:
            click.echo("nobody serves this rack: they wait until `fleetctl serve` runs")
        click.echo()
    summaries = [run.summary() for run in known]
    print_table(RUN_COLUMNS, [run_row(summary) for summary in summaries])
    for summary in summaries:
        # Below the table: in a column of it, a sentence would be squeezed to a word a line.
        if summary.reason:
            click.echo(f"{summary.name}: {summary.reason.splitlines()[0]}")
        if heat := heat_words(summary.heated):
            click.echo(f"{summary.name}: slowed for heat: {heat}")


def tell(app: App, name: str, output: str) -> None:
    """Print all of one job or run."""
    from fleetctl.cli.jobs_view import queue_lines, run_json, run_lines
    from fleetctl.jobs import runs
    from fleetctl.serve.outlook import outlook

    now = time.time()
    waiting = [j for j in outlook(app.rack, app.paths, app.state, now).jobs if j.name == name]
    if waiting:
        if output == "json":
            print_json({"job": waiting[0].as_json()})
        else:
            click.echo("\n".join(queue_lines(waiting[0], now)))
        return
    run = runs.find(app.paths.runs, name)
    if output == "json":
        print_json({"job": run_json(run, now)})
    else:
        click.echo("\n".join(run_lines(run, now)))
