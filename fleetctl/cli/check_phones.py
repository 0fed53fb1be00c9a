"""`fleetctl check [NODES]`"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, nodes_argument, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.checks.phone import PhoneFacts
    from fleetctl.checks.registry import Outcome


@click.command("check")
@nodes_argument
@output_option
@click.pass_context
@pass_app
def check_phones(app: App, ctx: click.Context, nodes: tuple[str, ...], output: str) -> None:
    """Check NODES, else all phones, as a launch does before it takes them.

    Exit code 3 if some fail, 4 if none answers.
    """
    from fleetctl.checks import phone

    names = app.select(nodes)
    facts = asyncio.run(_ask(app, names))
    outcomes = phone.judge(facts, app.rack)
    _keep(app, facts, outcomes)
    asyncio.run(_try_the_other_door(app, facts))
    if output == "json":
        _print_json(outcomes)
    else:
        _print(outcomes)
    if names and not any(found.reached for found in facts.values()):
        ctx.exit(ExitCode.NONE_REACHABLE)
    if any(one.result.status == "CRITICAL" for found in outcomes.values() for one in found):
        ctx.exit(ExitCode.SOME_PHONES_FAILED)


async def _ask(app: App, names: list[str]) -> dict[str, PhoneFacts]:
    from fleetctl.checks import phone
    from fleetctl.remote import Fleet

    holders = {name: known.run for name, known in app.state.phones().items()}
    async with Fleet(app.rack, app.paths) as fleet:
        facts = await phone.gather(
            fleet,
            app.rack,
            names,
            holders=holders,
            wanted_revocations=app.state.wanted_revocations(),
        )
    return facts | await _search(app, facts)


async def _try_the_other_door(app: App, facts: Mapping[str, PhoneFacts]) -> None:
    """Note which of the phones that are silent over ssh answer over adb."""
    from fleetctl.checks import doors

    phones = {
        name: app.rack.phones[name] for name, found in facts.items() if found.answered is False
    }
    serials = {name: phone.serial for name, phone in phones.items() if phone.serial}
    answers = await doors.over_adb(app.paths, serials)
    app.state.record_adb(doors.worth_noting(answers, app.state.phones()))


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
    return {name: replace(facts[name], moved_to=address) for name, address in found.items()}


def _keep(app: App, facts: Mapping[str, PhoneFacts], outcomes: Mapping[str, list[Outcome]]) -> None:
    """A phone at work has little memory left, which says nothing of its health."""
    from fleetctl.checks.health import keep

    busy = {name for name, known in app.state.phones().items() if known.run}
    idle = {name: found for name, found in facts.items() if name not in busy}
    keep(app.state, idle, {name: outcomes[name] for name in idle})


def _print_json(outcomes: Mapping[str, list[Outcome]]) -> None:
    from dataclasses import asdict

    from fleetctl.cli.output import print_json

    print_json(
        {
            "phones": [
                {
                    "name": name,
                    "checks": [
                        {"name": one.check.name, **asdict(one.result), "cure": one.check.cure}
                        for one in found
                    ],
                }
                for name, found in outcomes.items()
            ]
        }
    )


def _print(outcomes: Mapping[str, list[Outcome]]) -> None:
    """Phones that say the same, good or bad, stand on one line."""
    from fleetctl.checks.phone import folded
    from fleetctl.cli.output import progress
    from fleetctl.rack.nodesets import fold

    for status in ("CRITICAL", "WARN"):
        for line in folded(outcomes, status):
            click.echo(f"{status:8} {line}")
    good = [
        name
        for name, found in outcomes.items()
        if all(one.result.status in ("OK", "WARN") for one in found)
    ]
    if good:
        click.echo(f"{'OK':8} {fold(good)}")
    progress().print(f"{len(good)} of {len(outcomes)} phones can take a job")
