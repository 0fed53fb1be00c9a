"""`fleetctl drain NODES --why REASON [--until WHEN]`"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, nodes_argument, output_option, pass_app

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleetctl.state import Drain


@click.command()
@nodes_argument
@click.option("--why", required=True, help="Reason, for whoever looks next.")
@click.option(
    "--until",
    metavar="WHEN",
    help="End by itself then: 90m, 2d12h, 18:30, '2027-03-01 18:30'.",
)
@output_option
@pass_app
def command(app: App, nodes: tuple[str, ...], why: str, until: str | None, output: str) -> None:
    """Keep NODES out of new jobs until they are undrained.

    A running job goes on: its phones are draining until it ends. No reboot clears a drain. Of two
    drains by the same person the later reason counts, and the later end.
    """
    from fleetctl.cli.moments import parse_until
    from fleetctl.cli.output import print_drains
    from fleetctl.state import user

    now = time.time()
    end = None if until is None else parse_until(until, now)
    if not why.strip():
        raise click.UsageError("--why is empty: say what the next one who looks has to know.")
    names = app.select_named(nodes)
    before = app.state.drain(names, who=user(), why=why, now=now, until=end)
    _tell_before(before)
    facts = app.state.phones(now)
    drains = {name: facts[name].drains for name in names if name in facts}
    if output == "json":
        print_drains(drains)
    else:
        _tell_ends(drains)
    _tell_runs({name: run for name in drains if (run := facts[name].run)})


def _tell_ends(drains: Mapping[str, Sequence[Drain]]) -> None:
    """Who is drained now, and until when: the end of the drain that lasts longest."""
    from fleetctl.rack.nodesets import fold
    from fleetctl.state.history import moment_text

    ends: dict[float | None, list[str]] = {}
    for name, held in drains.items():
        last = None if any(d.until is None for d in held) else max(d.until or 0 for d in held)
        ends.setdefault(last, []).append(name)
    for moment, members in ends.items():
        till = "" if moment is None else f" until {moment_text(moment)}"
        click.echo(f"{fold(members)}: drained{till}", err=True)


def _tell_runs(runs: Mapping[str, str]) -> None:
    """Who is not free yet: a drain ends no run."""
    from fleetctl.rack.nodesets import fold

    phones: dict[str, list[str]] = {}
    for name, run in runs.items():
        phones.setdefault(run, []).append(name)
    for run, names in phones.items():
        click.echo(
            f"{fold(names)}: draining, run {run} goes on there; `fleetctl stop {run}` ends it",
            err=True,
        )


def _tell_before(before: Mapping[str, Sequence[Drain]]) -> None:
    """Who had drained them already, and why: all of that still holds."""
    from fleetctl.rack.nodesets import fold

    said: dict[str, list[str]] = {}
    for name, drains in before.items():
        for drain in drains:
            said.setdefault(f"{drain.by} ({drain.why})", []).append(name)
    for reason, names in said.items():
        click.echo(f"{fold(names)}: drained already by {reason}", err=True)
