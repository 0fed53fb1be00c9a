"""fleetctl stop"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, output_option, pass_app, run_argument
from fleetctl.cli.output import print_json, progress
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.jobs.runs import RunFolder, Summary


@click.command()
@run_argument
@output_option
@pass_app
@click.pass_context
def command(ctx: click.Context, app: App, run_name: str | None, output: str) -> None:
    """Stop a run on all its phones, the newest one by default; nothing of it stays there.

    A job that waits in the queue is taken out of it. A phone that does not answer is named, and
    the exit code is 3; stop the run once more when the phone is back.
    """
    from fleetctl.jobs import runs
    from fleetctl.serve.stop import stop_unstarted

    if run_name is not None and stop_unstarted(app.paths, run_name):
        if output == "json":
            print_json({"run": run_name, "state": "stopped", "began": False, "left": {}})
        else:
            click.echo(f"{run_name} stopped before it ran")
        return
    run = runs.find(app.paths.runs, run_name)
    was_over = run.summary().over
    summary = asyncio.run(_stop(app, run))
    for why in summary.left.values():
        click.echo(f"processes may be left: {why}", err=True)
    if was_over and not summary.left:
        progress().print(f"{run.name} was over; left-over processes on its phones are gone")
    if output == "json":
        left = dict(summary.left)
        print_json({"run": run.name, "state": summary.state, "began": True, "left": left})
    else:
        click.echo(f"{run.name} {summary.state}")
    if summary.left:
        ctx.exit(ExitCode.SOME_PHONES_FAILED)


async def _stop(app: App, run: RunFolder) -> Summary:
    from fleetctl.jobs import attach
    from fleetctl.jobs.launch import Room
    from fleetctl.remote import Fleet

    async with Fleet(app.rack, app.paths) as fleet:
        room = Room(fleet, app.rack, app.state, app.paths, progress().print)
        return await attach.stop(room, run)
