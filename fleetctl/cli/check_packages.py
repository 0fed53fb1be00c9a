"""What `fleetctl check packages` shows."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleetctl.checks.packages import Finding, PackageFacts, Snapshot
    from fleetctl.cli.common import App


def check(app: App, names: list[str], output: str) -> ExitCode:
    """Ask the phones, show what differs; the command's exit code."""
    from fleetctl.checks.packages import findings, gather, judge, keep_contact, read_snapshot
    from fleetctl.cli.output import progress
    from fleetctl.remote import Fleet
    from fleetctl.serve import last_checks
    from fleetctl.state import StateError

    snapshot = read_snapshot(app.paths.mirror)

    async def ask() -> dict[str, PackageFacts]:
        async with Fleet(app.rack, app.paths) as fleet:
            return await gather(fleet, names, snapshot)

    with progress().status(f"asking {len(names)} phones for their packages"):
        facts = asyncio.run(ask())
    found = findings(judge(facts, app.rack))
    if output == "json":
        _print_json(app, facts, snapshot, found)
    else:
        _print_table(app, facts, snapshot, found)
    try:
        keep_contact(app.state, facts)
    except StateError as problem:
        raise StateError(f"{problem}; who answered is not kept") from None
    if len(names) == len(app.rack.enrolled):
        last_checks.note(app.paths.last_checks, "packages", len(found))
    app.note_failed(
        "check packages", list(dict.fromkeys(name for each in found for name in each.phones))
    )
    if not any(each.reached for each in facts.values()):
        return ExitCode.NONE_REACHABLE
    return ExitCode.SOME_PHONES_FAILED if found else ExitCode.DONE


def _cure(snapshot: Snapshot | None, found: list[Finding]) -> str | None:
    """The command that brings all phones back that differ, and leaves those that do not."""
    if all(each.check.name == "packages-asked" for each in found):
        return None
    if snapshot is None:
        return "ansible-playbook site.yml -t controller,termux"
    return f"ansible-playbook playbooks/upgrade.yml -e upgrade_to={snapshot.name}"


def _print_json(
    app: App,
    facts: Mapping[str, PackageFacts],
    snapshot: Snapshot | None,
    found: list[Finding],
) -> None:
    from fleetctl.checks.packages import differences
    from fleetctl.cli.output import print_json

    print_json(
        {
            "snapshot": snapshot.name if snapshot else None,
            "phones": {
                name: {
                    "problem": each.problem,
                    "snapshot": each.snapshot,
                    "half_installed": list(each.half),
                    "differences": []
                    if each.problem
                    else [asdict(item) for item in differences(each, app.rack)],
                }
                for name, each in facts.items()
            },
            "findings": [
                {"check": each.check.name, "phones": list(each.phones), "message": each.said}
                for each in found
            ],
            "cure": _cure(snapshot, found),
        }
    )


def _print_table(
    app: App,
    facts: Mapping[str, PackageFacts],
    snapshot: Snapshot | None,
    found: list[Finding],
) -> None:
    asked = sum(each.problem is None for each in facts.values())
    against = f"the rack's snapshot {snapshot.name}" if snapshot else "what most phones have"
    click.echo(f"Packages of {asked} phones of rack {app.rack.name} against {against}")
    for each in found:
        click.echo(str(each))
    if not found:
        click.echo("all as they should be")
    if cure := _cure(snapshot, found):
        click.echo(f"Full upgrade: {cure}", err=True)
