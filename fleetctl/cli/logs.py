"""`fleetctl logs [RUN] [-f] [--rank N]`"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli.common import App, output_option, pass_app, run_argument
from fleetctl.cli.log_tail import Tail, attempts

if TYPE_CHECKING:
    from fleetctl.jobs.foreground import Foreground
    from fleetctl.jobs.runs import RunFolder

POLL_SECONDS = 0.5


@click.command()
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--rank", type=click.IntRange(0), help="Only what this rank says.")
@output_option
@pass_app
def command(app: App, run_name: str | None, follow: bool, rank: int | None, output: str) -> None:
    """Show the output of a run, the newest one by default: what its ranks print.

    With -f a run that nobody supervises is supervised from this terminal, where no `fleetctl serve`
    does so: Ctrl-C then leaves it alone, and `fleetctl stop` ends it. A connection that is lost is
    made again; nothing is lost and nothing comes twice.
    """
    if follow and output == "json":
        raise click.UsageError("-f shows lines as they come; leave out -o json.")
    run = _find(app, run_name)
    _refuse_unknown(run, rank)
    if output == "json":
        _print_json(run, rank)
        return
    if follow and not run.summary().over:
        _follow(app, run, rank)
        return
    Tail(run, rank, click.echo).read()
    summary = run.summary()
    if summary.reason:
        click.echo(f"{run.name} {summary.state}: {summary.reason}", err=True)


def _find(app: App, name: str | None) -> RunFolder:
    """The run of that name, else the newest. Raises InputError, which tells why a job waits that
    has said nothing yet."""
    from fleetctl.jobs import runs
    from fleetctl.rack import InputError
    from fleetctl.serve.outlook import outlook

    try:
        return runs.find(app.paths.runs, name)
    except InputError:
        for job in outlook(app.rack, app.paths, app.state, time.time()).jobs:
            if name in (None, job.name):
                raise InputError(
                    f"{job.name} has not begun, so it has said nothing: {job.why}; "
                    "`fleetctl jobs` shows when it does"
                ) from None
        raise


def _refuse_unknown(run: RunFolder, rank: int | None) -> None:
    ranks = max((len(attempt.phones) for attempt in attempts(run)), default=0)
    if rank is not None and 0 < ranks <= rank:
        raise click.UsageError(f"{run.name} has no rank {rank}: its ranks are 0 to {ranks - 1}.")


def _print_json(run: RunFolder, rank: int | None) -> None:
    from fleetctl.cli.output import print_json

    lines: list[dict[str, Any]] = []
    Tail(run, rank, lambda line: lines.append(asdict(line))).read()
    summary = run.summary()
    print_json({"run": run.name, "state": summary.state, "reason": summary.reason, "lines": lines})


def _follow(app: App, run: RunFolder, rank: int | None) -> None:
    from fleetctl.jobs.foreground import Foreground
    from fleetctl.jobs.runs import Supervised

    tail, told = Tail(run, rank, click.echo), None
    while not run.summary().over:
        tail.read()
        supervised = run.supervised
        whose = None if supervised else _whose(app, run)
        if not supervised and whose is None:
            tail.read()  # what the one that is gone wrote last
            try:
                Foreground().run(lambda fore: _supervise(app, fore, run, rank))
                return
            except Supervised:
                continue
        if whose is not None and whose != told:
            click.echo(f"{run.name} {whose}", err=True)
            told = whose
        time.sleep(POLL_SECONDS)
    tail.read()
    summary = run.summary()
    click.echo(f"{run.name} {summary.state}: {summary.reason or 'all ranks are done'}", err=True)


def _whose(app: App, run: RunFolder) -> str | None:
    """Who looks after a run that nobody supervises at this moment; None: this terminal may."""
    from fleetctl.serve.lock import server
    from fleetctl.serve.queue import Queue

    served, entry = server(app.paths.serve_lock), None
    if app.paths.queue_db.exists():
        with Queue(app.paths.queue_db) as queue:
            entry = queue.get(run.name)
    if entry is not None and entry.waits:
        until = "" if served else " until `fleetctl serve` runs"
        return f"waits in the queue{until}; its phones are free meanwhile"
    return "is unsupervised; `fleetctl serve` comes back to it in a moment" if served else None


async def _supervise(app: App, foreground: Foreground, run: RunFolder, rank: int | None) -> None:
    import asyncio

    from fleetctl.cli.follow import Screen
    from fleetctl.jobs.foreground import see_through
    from fleetctl.jobs.launch import Room
    from fleetctl.remote import Fleet

    del foreground  # Ctrl-C leaves the run alone
    with run.supervise(), Screen() as screen:
        async with Fleet(app.rack, app.paths) as fleet:
            room = Room(fleet, app.rack, app.state, app.paths, screen.remark)
            screen.remark(f"nobody supervised {run.name}; this terminal does now")
            verdict = await see_through(
                room,
                run,
                lambda watch: screen.attach(watch, show_log=True, rank=rank),
                asyncio.Event(),
            )
        screen.conclude(run, verdict)
