"""`fleetctl check [NODES]`"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, complete_nodes, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from fleetctl.checks.phone import PhoneFacts
    from fleetctl.checks.registry import Outcome
    from fleetctl.rack import Rack
    from fleetctl.state import PhoneFacts as Known
    from fleetctl.state import StateError

FEW = 5
"""So many phones at least are held against each other for releases and versions."""


def _complete_words(
    ctx: click.Context, param: click.Parameter, text: str
) -> list[CompletionItem] | list[str]:
    """Node sets, and what else `fleetctl check` checks: without a first word it is this command."""
    group = ctx.parent.command if ctx.parent else None
    commands = group.commands if isinstance(group, click.Group) else ()
    return [
        *(name for name in commands if name.startswith(text)),
        *complete_nodes(ctx, param, text),
    ]


@click.command("check")
@click.argument("nodes", nargs=-1, metavar="[NODES]...", shell_complete=_complete_words)
@click.option(
    "--level",
    type=click.IntRange(1, 3),
    default=1,
    show_default=True,
    help="1: seconds, as a launch does; 2: a minute, network too; 3: with a burn-in.",
)
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Pack what was found, without secrets, into a .tar.gz for whoever helps.",
)
@output_option
@click.pass_context
@pass_app
def check_phones(
    app: App,
    ctx: click.Context,
    nodes: tuple[str, ...],
    level: int,
    bundle: Path | None,
    output: str,
) -> None:
    """Check NODES, else all phones, as a launch does before it takes them.

    From level 2 on phones are held meanwhile, and those that work for a run are left out; what
    fails there drains its phone, until it is found good at that level. Exit code 3 if some fail, or
    not all of them could be found out, 4 if none answers, 5 if runs hold all of them.
    """
    from fleetctl.checks import phone
    from fleetctl.cli import check_view
    from fleetctl.cli.check_deep import held_for_check
    from fleetctl.cli.output import print_json, progress

    if bundle is not None:
        from fleetctl.cli.bundle import refuse_bundle

        refuse_bundle(bundle)
    with held_for_check(app, app.select_enrolled(nodes), level) as free:
        facts = asyncio.run(_ask(app, free, level))
        doors, moved = asyncio.run(_look_elsewhere(app, facts))
        facts |= moved
        outcomes = phone.judge(facts, app.rack, level)
        trouble = _keep(app, facts, outcomes, doors, level)
        if output == "json":
            print_json(check_view.as_json(outcomes, level))
        else:
            for line in check_view.lines(outcomes):
                click.echo(line)
            progress().print(check_view.summary(outcomes), markup=False, soft_wrap=True)
        if bundle is not None:
            _bundle(app, bundle, outcomes)
    failed = [*check_view.bad(outcomes), *check_view.unclear(outcomes)]
    if trouble is not None:
        raise trouble
    app.note_failed("check", failed)
    if not any(found.reached for found in facts.values()):
        ctx.exit(ExitCode.NONE_REACHABLE)
    if failed:
        ctx.exit(ExitCode.SOME_PHONES_FAILED)


def _bundle(app: App, path: Path, outcomes: Mapping[str, list[Outcome]]) -> None:
    """Pack these outcomes together with what controller and rack file are like."""
    import fleetctl.checks.rack  # noqa: F401  registers the checks
    from fleetctl.checks.registry import run_checks
    from fleetctl.cli.bundle import write_bundle
    from fleetctl.cli.check_controller import look_at_controller, outcomes_json

    checks = {
        "controller": outcomes_json(look_at_controller(app)),
        "rack": outcomes_json(run_checks("rack", app.rack, app.rack)),
        "phones": {name: outcomes_json(found) for name, found in outcomes.items()},
    }
    names = write_bundle(app, path, checks)
    click.echo(f"{path}: {len(names)} files; read it before you send it", err=True)


async def _ask(app: App, names: list[str], level: int) -> dict[str, PhoneFacts]:
    from dataclasses import replace

    from fleetctl.bench.deep import DeepLook
    from fleetctl.checks import phone
    from fleetctl.cli.output import progress
    from fleetctl.remote import Fleet
    from fleetctl.state import StateError

    console = progress()
    known: dict[str, Known] = {}
    holders: dict[str, str | None] | None
    try:
        known = app.state.phones()
        holders = {name: each.run for name, each in known.items()}
        wanted = app.state.wanted_revocations()
    except StateError:
        holders, wanted = None, 0
    async with Fleet(app.rack, app.paths) as fleet:
        facts = await phone.gather(
            fleet,
            app.rack,
            [*names, *_witnesses(app.rack, names, known)],
            holders=holders,
            wanted_revocations=wanted,
        )
        facts = {name: replace(facts[name], together=frozenset(names)) for name in names}
        if holders is None:  # whose processes and which keys they are, nobody can tell
            facts = {
                name: replace(found, strays={}, wanted_revocations=None)
                for name, found in facts.items()
            }
        if level > 1:
            look = DeepLook(fleet, app.rack, lambda text: console.print(text, markup=False))
            facts = await look.gather(facts, level)
    return facts


def _witnesses(rack: Rack, names: list[str], known: Mapping[str, Known]) -> list[str]:
    """Others beside a few phones, which would have what most have by having it themselves."""
    others = (name for name in rack.enrolled if name not in names)
    there = [name for name in others if name not in known or not known[name].contact.missed_since]
    return there[: max(0, FEW - len(names))]


async def _look_elsewhere(
    app: App, facts: Mapping[str, PhoneFacts]
) -> tuple[dict[str, bool], dict[str, PhoneFacts]]:
    """Look for silent phones behind the other door and at other addresses, at the same time;
    returns which answer over adb, and the facts of those that have moved."""
    return await asyncio.gather(_try_the_other_door(app, facts), _search(app, facts))


async def _try_the_other_door(app: App, facts: Mapping[str, PhoneFacts]) -> dict[str, bool]:
    """Which of the phones that are silent over ssh answer over adb."""
    from fleetctl.checks import doors

    phones = {
        name: app.rack.phones[name] for name, found in facts.items() if found.answered is False
    }
    serials = {name: phone.serial for name, phone in phones.items() if phone.serial}
    return await doors.over_adb(app.paths, serials)


async def _search(app: App, facts: Mapping[str, PhoneFacts]) -> dict[str, PhoneFacts]:
    """The facts of phones that answer at another address than theirs."""
    from dataclasses import replace

    from fleetctl.checks import moved
    from fleetctl.rack.nodesets import fold

    if not (missing := moved.worth_a_search(facts, app.rack)):
        return {}
    click.echo(f"looking for {fold(missing)} in {app.rack.network.cidr}", err=True)
    keys = moved.known_keys(app.paths.known_hosts)
    found = await moved.find(app.rack, missing, keys)
    if found.asked < found.places:
        click.echo(f"{found.asked} of {found.places} addresses asked in time", err=True)
    return {name: replace(facts[name], moved_to=address) for name, address in found.phones.items()}


def _keep(
    app: App,
    facts: Mapping[str, PhoneFacts],
    outcomes: Mapping[str, list[Outcome]],
    answers: Mapping[str, bool],
    level: int,
) -> StateError | None:
    """A phone at work has little memory left, which says nothing of its health.

    Returns why it cannot be kept: what was found is told all the same.
    """
    from fleetctl.checks.doors import worth_noting
    from fleetctl.checks.health import keep
    from fleetctl.cli.check_deep import is_ours
    from fleetctl.state import StateError

    who = "fleetctl check" if level == 1 else f"fleetctl check --level {level}"
    try:
        known = app.state.phones()
        busy = {name for name, each in known.items() if each.run and not is_ours(each.run)}
        idle = {name: found for name, found in facts.items() if name not in busy}
        keep(app.state, idle, {name: outcomes[name] for name in idle}, who)
        app.state.record_adb(worth_noting(answers, known))
    except StateError as problem:
        return StateError(f"{problem}; what was found of the phones is not kept")
    return None
