"""`fleetctl check [NODES]`, `check rack`, `check packages` and `check cables`"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, override

import click

from fleetctl.cli.check_cables import check_cables
from fleetctl.cli.check_controller import check_controller, check_list
from fleetctl.cli.common import App, nodes_argument, output_option, pass_app

if TYPE_CHECKING:
    from fleetctl.checks.registry import Outcome
    from fleetctl.rack import RackError


class _NodesGroup(click.Group):
    """A group whose first word may also be a node set: then phones are checked."""

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in self.commands:
            return super().resolve_command(ctx, args)
        from fleetctl.cli.check_phones import check_phones

        return check_phones.name, check_phones, args

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Nothing, or options first: all phones.
        helps = {"-h", "--help"} & set(args[:1])
        if not helps and (not args or args[0].startswith("-")):
            args = ["@phones", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_NodesGroup, subcommand_metavar="[NODES | COMMAND] [OPTIONS]")
def command() -> None:
    """Check NODES, else all phones: whether each can take a job, and what to do if not.

    `fleetctl check rack` checks the rack file instead, `fleetctl check controller` this machine and
    what it needs around it, `fleetctl check packages` what is installed, `fleetctl check cables`
    where phones are plugged in. `fleetctl check list` lists all checks of phones and others.
    """


command.add_command(check_cables)
command.add_command(check_controller)
command.add_command(check_list)


@command.command("packages")
@nodes_argument
@output_option
@pass_app
def check_packages(app: App, nodes: tuple[str, ...], output: str) -> int:
    """Show which phones' packages differ from the rack's snapshot, and in what.

    Ends with code 3 if some differ or were not reached, with code 4 if none was reached.
    """
    from fleetctl.cli.check_packages import check

    return check(app, app.select_enrolled(nodes or ("@phones",)), output)


@command.command("rack")
@output_option
@pass_app
def check_rack(app: App, output: str) -> None:
    """Check the rack file and its lock file, and show what they describe.

    Every mistake is shown with its line, and ends the command with exit code 2.
    """
    import fleetctl.checks.rack  # noqa: F401  registers the checks
    from fleetctl.checks.registry import run_checks
    from fleetctl.rack import RackError

    try:
        rack = app.rack
    except RackError as problem:
        if output == "json":
            _print_mistakes(problem)
        raise
    outcomes = run_checks("rack", rack, rack)
    if output == "json":
        _print_json(app, outcomes)
    else:
        _print_tables(app, outcomes)


def _print_mistakes(problem: RackError) -> None:
    from fleetctl.cli.output import print_json

    print_json({"mistakes": [asdict(mistake) for mistake in problem.mistakes]})


def _print_json(app: App, outcomes: list[Outcome]) -> None:
    from fleetctl.cli.output import print_json

    print_json(
        {
            "rack": app.rack.name,
            "file": str(app.rack_file),
            "groups": app.rack.groups,
            "ring": app.rack.ring(),
            "checks": [
                {
                    "name": outcome.check.name,
                    "status": outcome.result.status,
                    "message": outcome.result.message,
                }
                for outcome in outcomes
            ],
        }
    )


def _print_tables(app: App, outcomes: list[Outcome]) -> None:
    from fleetctl.cli.output import print_table
    from fleetctl.rack.nodesets import fold

    rack = app.rack
    click.echo(f"Rack {rack.name} ({app.rack_file}): {rack.network.cidr}, {rack.network.medium}")
    rows = []
    for group, members in rack.groups.items():
        switch = rack.switches.get(group)
        kind = f"{switch.platform} switch" if switch else ""
        rows.append((group, kind, len(members), fold(members)))
    print_table(("group", "", "phones", "node set"), rows)
    for outcome in outcomes:
        result = outcome.result
        cure = "" if result.status == "OK" else f"; {outcome.check.cure}"
        click.echo(f"{result.status:8} {outcome.check.name}: {result.message}{cure}")
