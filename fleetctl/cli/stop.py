"""fleetctl stop"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, pass_app
from fleetctl.cli.output import progress

if TYPE_CHECKING:
    from fleetctl.jobs.runs import RunFolder, Summary


@click.command()
@click.argument("run_name", required=False, metavar="[RUN]")
@pass_app
def command(app: App, run_name: str | None) -> None:
    """Stop a run on all its phones, the newest one by default; nothing of it stays there."""
    from fleetctl.jobs import runs

    run = runs.find(app.paths.runs, run_name)
    was_over = run.summary().over
    summary = asyncio.run(_stop(app, run))
    if was_over:
        progress().print(f"{run.name} was over; left-over processes on its phones are gone")
    click.echo(f"{run.name} {summary.state}")


async def _stop(app: App, run: RunFolder) -> Summary:
    from fleetctl.jobs import attach
    from fleetctl.jobs.launch import Room
    from fleetctl.remote import Fleet

    async with Fleet(app.rack, app.paths) as fleet:
        room = Room(fleet, app.rack, app.state, app.paths, progress().print)
        return await attach.stop(room, run)
