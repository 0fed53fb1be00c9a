"""`fleetctl status [NODES] [--watch]`"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli.common import App, nodes_argument, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.checks.vitals import Vitals
    from fleetctl.cli.status_view import Row


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
    names = app.select(nodes)
    asked = [name for name in names if app.rack.phones[name].enrolled]
    if facts:
        if not _show_facts(app, asked, output):
            ctx.exit(ExitCode.NONE_REACHABLE)
        return
    if watch:
        from fleetctl.cli.watch import watch as keep_looking

        asyncio.run(keep_looking(app, asked, lambda vitals: _record(app, vitals)))
        return
    vitals = asyncio.run(_look(app, asked))
    rows = _rows(app, names, vitals)
    _print(app, rows, output, with_history=bool(nodes) and len(names) == 1)
    if not any(look.reached for look in vitals.values()):
        ctx.exit(ExitCode.NONE_REACHABLE)


def _show_facts(app: App, names: list[str], output: str) -> bool:
    """Ask, keep and show; whether any phone answered."""
    from fleetctl.checks.facts import gather
    from fleetctl.cli.facts_view import as_json, make_rows, render
    from fleetctl.cli.output import print_json, stdout
    from fleetctl.remote import Fleet

    async def ask() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        async with Fleet(app.rack, app.paths) as fleet:
            return await gather(fleet, names)

    told, problems = asyncio.run(ask())
    app.state.record_facts(told)
    rows = make_rows(app.rack, names, app.state.facts(), problems, time.time())
    if output == "json":
        print_json(as_json(app.rack, rows))
    else:
        console = stdout()
        console.print(render(rows, console.width))
    return bool(told)


async def _look(app: App, names: list[str]) -> dict[str, Vitals]:
    from fleetctl.checks.vitals import look
    from fleetctl.remote import Fleet

    async with Fleet(app.rack, app.paths) as fleet:
        vitals = await look(fleet, names)
    _record(app, vitals)
    return vitals


def _record(app: App, vitals: dict[str, Vitals]) -> None:
    answered = {name: look.reached for name, look in vitals.items() if look.reached is not None}
    app.state.record_contact(
        answered,
        why={name: look.problem for name, look in vitals.items()},
        up_seconds={name: look.up_seconds for name, look in vitals.items()},
    )
    app.state.record_revocations(
        {name: look.revocations for name, look in vitals.items() if look.revocations is not None}
    )


def _rows(app: App, names: list[str], vitals: dict[str, Vitals]) -> list[Row]:
    from fleetctl.cli.status_view import make_rows

    facts = app.state.phones()
    heated = _heated(app, {fact.run for fact in facts.values() if fact.run})
    return make_rows(app.rack, names, facts, vitals, time.time(), heated)


def _heated(app: App, names: set[str]) -> dict[str, tuple[int, int]]:
    """What phones have of their shares in these runs, where heat has made it less."""
    from fleetctl.jobs.runs import RunFolder

    found: dict[str, tuple[int, int]] = {}
    for name in names:
        found |= RunFolder(app.paths.runs / name).summary().heated
    return found


def _print(app: App, rows: list[Row], output: str, *, with_history: bool) -> None:
    """`with_history`: of one phone everything is shown."""
    from fleetctl.cli import phone_view
    from fleetctl.cli.output import print_json, stdout
    from fleetctl.cli.status_view import as_json, render

    histories = {row.phone.name: app.state.history(row.phone.name) for row in rows if with_history}
    if output == "json":
        print_json(as_json(app.rack, rows, histories))
        return
    console = stdout()
    console.print(render(app.rack, rows, console.width))
    for row in rows:
        if row.phone.name in histories:
            console.print(phone_view.render(row.facts, histories[row.phone.name]))
