"""`fleetctl status [NODES] [--watch]`"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli.common import App, nodes_argument, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleetctl.checks.vitals import Vitals
    from fleetctl.cli.status_view import Row
    from fleetctl.state import Event, PhoneFacts


@click.command()
@nodes_argument
@click.option("--watch", is_flag=True, help="The rack at a glance, until Ctrl-C.")
@click.option("--facts", is_flag=True, help="What they are instead of how they are.")
@output_option
@click.pass_context
@pass_app
def command(
    app: App, ctx: click.Context, nodes: tuple[str, ...], watch: bool, facts: bool, output: str
) -> None:
    """Show NODES, else all phones: state, place, health, job.

    Every phone is asked now. Exit code 4 if none answers. Of one phone that is named, what is known
    of it and what has happened to it is shown too. With --facts: model, API level, cores,
    memory, storage, battery, versions; of a phone that does not answer, what it said last.
    """
    if watch and (output == "json" or facts):
        raise click.UsageError("--watch shows a table of vitals; leave out -o json and --facts.")
    from fleetctl.cli.kept_looks import keep_and_read
    from fleetctl.cli.status_view import make_rows

    names = app.select(nodes)
    asked = [name for name in names if app.rack.phones[name].enrolled]
    if facts:
        if not _show_facts(app, asked, output):
            ctx.exit(ExitCode.NONE_REACHABLE)
        return
    if watch:
        from fleetctl.cli.watch import watch as keep_looking

        asyncio.run(keep_looking(app, asked))
        return
    vitals = asyncio.run(_look(app, asked))
    known, trouble = keep_and_read(app, vitals)
    rows = make_rows(app.rack, names, known, vitals, time.time(), _heated(app, known))
    one = bool(nodes) and len(names) == 1
    _print(app, rows, output, _histories(app, names) if one else {})
    if trouble is not None:
        raise trouble
    if not any(look.reached for look in vitals.values()):
        ctx.exit(ExitCode.NONE_REACHABLE)


def _show_facts(app: App, names: list[str], output: str) -> bool:
    """Ask, keep and show; whether any phone answered."""
    from fleetctl.checks.facts import gather
    from fleetctl.cli.facts_view import as_json, make_rows, render
    from fleetctl.cli.output import print_json, stdout
    from fleetctl.remote import Fleet
    from fleetctl.state import StateError

    async def ask() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        async with Fleet(app.rack, app.paths) as fleet:
            return await gather(fleet, names)

    told, problems = asyncio.run(ask())
    now, trouble = time.time(), None
    kept: dict[str, tuple[float, dict[str, Any]]] = {}
    try:
        kept = app.state.facts()
        app.state.record_facts(told, now)
    except StateError as problem:
        trouble = StateError(f"{problem}; what phones said now is not kept")
    kept |= {name: (now, said) for name, said in told.items()}
    rows = make_rows(app.rack, names, kept, problems, now)
    if output == "json":
        print_json(as_json(app.rack, rows))
    else:
        console = stdout()
        console.print(render(rows, console.width))
    if trouble is not None:
        raise trouble
    return bool(told)


async def _look(app: App, names: list[str]) -> dict[str, Vitals]:
    from fleetctl.checks.vitals import look
    from fleetctl.remote import Fleet

    async with Fleet(app.rack, app.paths) as fleet:
        return await look(fleet, names)


def _heated(app: App, known: Mapping[str, PhoneFacts]) -> dict[str, tuple[int, int]]:
    """What phones have of their shares in their runs, where heat has made it less."""
    from fleetctl.jobs.runs import RunFolder

    found: dict[str, tuple[int, int]] = {}
    for name in {facts.run for facts in known.values() if facts.run}:
        found |= RunFolder(app.paths.runs / name).summary().heated
    return found


def _histories(app: App, names: list[str]) -> dict[str, list[Event]]:
    """What happened to phones; where the state does not tell, the command ends with saying so."""
    from fleetctl.state import StateError

    try:
        return {name: app.state.history(name) for name in names}
    except StateError:
        return {}


def _print(
    app: App, rows: list[Row], output: str, histories: Mapping[str, Sequence[Event]]
) -> None:
    """`histories`: of one phone everything is shown."""
    from fleetctl.cli import phone_view
    from fleetctl.cli.output import print_json, stdout
    from fleetctl.cli.status_view import as_json, render

    if output == "json":
        print_json(as_json(app.rack, rows, histories))
        return
    console = stdout()
    console.print(render(app.rack, rows, console.width))
    for row in rows:
        if row.phone.name in histories:
            console.print(phone_view.render(row.facts, histories[row.phone.name]))
