"""fleetctl logs"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, pass_app

if TYPE_CHECKING:
    from fleetctl.jobs.foreground import Foreground
    from fleetctl.jobs.runs import RunFolder


@click.command()
@click.argument("run_name", required=False, metavar="[RUN]")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--rank", type=click.IntRange(0), help="Only what this rank says.")
@pass_app
def command(app: App, run_name: str | None, follow: bool, rank: int | None) -> None:
    """Show the output of a run, the newest one by default.

    With -f a run that nobody supervises is supervised from this terminal: Ctrl-C then leaves it
    alone, and `fleetctl stop` ends it.
    """
    from fleetctl.jobs import runs

    run = runs.find(app.paths.runs, run_name)
    if follow and not run.summary().over:
        _follow(app, run, rank)
        return
    from fleetctl.jobs.copies import whole_lines

    for line in whole_lines(run.log_file):
        _show(run, line, rank)
    summary = run.summary()
    if summary.reason:
        click.echo(f"{run.name} {summary.state}: {summary.reason}", err=True)


def _show(run: RunFolder, line: str, rank: int | None) -> None:
    from fleetctl.cli.follow import untagged

    said, text = untagged(line, run.summary().phones)
    if rank is None or said == rank:
        click.echo(text)


def _follow(app: App, run: RunFolder, rank: int | None) -> None:
    from fleetctl.jobs.copies import whole_lines
    from fleetctl.jobs.foreground import Foreground
    from fleetctl.jobs.runs import Supervised

    shown = 0
    while not run.summary().over:
        lines = whole_lines(run.log_file)
        for line in lines[shown:]:
            _show(run, line, rank)
        shown = len(lines)
        if not run.supervised:
            try:
                Foreground().run(lambda fore: _supervise(app, fore, run, rank))
                return
            except Supervised:
                continue
        time.sleep(0.5)
    for line in whole_lines(run.log_file)[shown:]:
        _show(run, line, rank)


async def _supervise(app: App, foreground: Foreground, run: RunFolder, rank: int | None) -> None:
    from fleetctl.cli.follow import Screen
    from fleetctl.jobs.launch import Room
    from fleetctl.jobs.recover import carry
    from fleetctl.remote import Fleet

    del foreground
    with run.supervise(), Screen() as screen:
        async with Fleet(app.rack, app.paths) as fleet:
            room = Room(fleet, app.rack, app.state, app.paths, screen.remark)
            screen.remark(f"nobody supervised {run.name}; this terminal does now")
            verdict = await carry(
                room, run, dress=lambda watch: screen.attach(watch, show_log=True, rank=rank)
            )
        screen.conclude(run, verdict)
