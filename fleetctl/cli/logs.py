"""`fleetctl logs [RUN] [-f] [--rank N]`"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli.common import App, output_option, pass_app, run_argument

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

    With -f a run that nobody supervises is supervised from this terminal: Ctrl-C then leaves it
    alone, and `fleetctl stop` ends it. A connection that is lost is made again; nothing is lost
    and nothing comes twice.
    """
    from fleetctl.jobs import runs

    if follow and output == "json":
        raise click.UsageError("-f shows lines as they come; leave out -o json.")
    run = runs.find(app.paths.runs, run_name)
    summary = run.summary()
    if rank is not None and summary.phones and rank >= len(summary.phones):
        raise click.UsageError(
            f"{run.name} has no rank {rank}: its ranks are 0 to {len(summary.phones) - 1}."
        )
    if output == "json":
        _print_json(run, rank)
        return
    if follow and not summary.over:
        _follow(app, run, rank)
        return
    _Tail(run, _shower(summary.phones, rank)).read()
    if summary.reason:
        click.echo(f"{run.name} {summary.state}: {summary.reason}", err=True)


class _Tail:
    """Hands on the lines of the run's log that are new since the last time."""

    def __init__(self, run: RunFolder, show: Callable[[str], None]) -> None:
        self._path, self._show = run.log_file, show
        self._place_bytes = 0

    def read(self) -> None:
        """A last line without its end waits for it."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._place_bytes)
            whole, end, _ = file.read().rpartition(b"\n")
        self._place_bytes += len(whole) + len(end)
        for line in whole.split(b"\n") if end else ():
            self._show(line.decode(errors="replace"))


def _shower(phones: tuple[str, ...], rank: int | None) -> Callable[[str], None]:
    from fleetctl.cli.follow import untagged

    def show(line: str) -> None:
        said, text = untagged(line, phones)
        if rank is None or said == rank:
            click.echo(text)

    return show


def _print_json(run: RunFolder, rank: int | None) -> None:
    from fleetctl.cli.follow import TAG
    from fleetctl.cli.output import print_json

    summary = run.summary()
    lines: list[dict[str, Any]] = []

    def take(line: str) -> None:
        found = TAG.match(line)
        said = int(found[1]) if found else None
        if rank is None or said == rank:
            phone = (
                summary.phones[said] if said is not None and said < len(summary.phones) else None
            )
            text = line[found.end() :] if found else line
            lines.append({"rank": said, "phone": phone, "text": text})

    _Tail(run, take).read()
    print_json({"run": run.name, "state": summary.state, "reason": summary.reason, "lines": lines})


def _follow(app: App, run: RunFolder, rank: int | None) -> None:
    from fleetctl.jobs.foreground import Foreground
    from fleetctl.jobs.runs import Supervised

    tail = _Tail(run, _shower(run.summary().phones, rank))
    while not run.summary().over:
        tail.read()
        if not run.supervised:
            tail.read()  # what the one that is gone wrote last
            try:
                Foreground().run(lambda fore: _supervise(app, fore, run, rank))
                return
            except Supervised:
                continue
        time.sleep(POLL_SECONDS)
    tail.read()
    summary = run.summary()
    click.echo(f"{run.name} {summary.state}: {summary.reason or 'all ranks are done'}", err=True)


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
