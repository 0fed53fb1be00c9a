"""`fleetctl check cables`"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, output_option, pass_app
from fleetctl.cli.switch_options import SwitchOptions, switch_options
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleetctl.switches.cabling import Cabling
    from fleetctl.switches.errors import SwitchError


@click.command("cables")
@click.option("--adopt", is_flag=True, help="Write MACs that were found into the lock file.")
@click.option("--yes", is_flag=True, help="Adopt without asking.")
@switch_options()
@output_option
@pass_app
def check_cables(app: App, adopt: bool, yes: bool, login: SwitchOptions, output: str) -> int:
    """Check where phones are plugged in, by what the switches have heard.

    Passwords come from the vault or the environment, such as $SWITCH_PASSWORD. Ends with 3 when
    phones are not where the rack file says, or that is not known.
    """
    from fleetctl.serve import last_checks
    from fleetctl.switches.cabling import compare
    from fleetctl.switches.wiring import look

    views, problems = look(login.switches(app))
    cabling = compare(app.rack, views)
    if output == "json":
        _print_json(app, cabling, problems)
    else:
        _print_text(cabling, problems)
    if adopt and cabling.adoptable:
        _adopt(app, cabling.adoptable, yes)
    if not problems:
        last_checks.note(app.paths.last_checks, "cables", len(cabling.findings))
    fine = not (cabling.findings or problems)
    return ExitCode.DONE if fine else ExitCode.SOME_PHONES_FAILED


def _print_json(app: App, cabling: Cabling, problems: Mapping[str, SwitchError]) -> None:
    from fleetctl.cli.output import print_json

    print_json(
        {
            "rack": app.rack.name,
            "right": list(cabling.right),
            "behind": dict(cabling.behind),
            "findings": [
                {**asdict(item), "spot": item.spot and item.spot._asdict()}
                for item in cabling.findings
            ],
            "mend": [[spot._asdict() for spot in (item.one, item.other)] for item in cabling.mend],
            "adoptable": dict(cabling.adoptable),
            "problems": {name: str(problem) for name, problem in problems.items()},
        }
    )


def _print_text(cabling: Cabling, problems: Mapping[str, SwitchError]) -> None:
    from fleetctl.cli.output import print_table, progress
    from fleetctl.rack.nodesets import fold

    for problem in problems.values():
        progress().print(str(problem), style="red", markup=False)
    click.echo(f"{len(cabling.right)} phones are where the rack file says")
    for switch in dict.fromkeys(cabling.behind.values()):
        mine = fold([phone for phone, name in cabling.behind.items() if name == switch])
        click.echo(f"{mine}: behind {switch}, which is unmanaged and does not tell the port")
    if cabling.findings:
        print_table(
            ["WHAT", "PHONE", "FOUND"],
            ((item.kind, item.phone, item.message) for item in cabling.findings),
        )
    if cabling.mend:
        click.echo("Exchange, in this order, what is plugged into")
        for exchange in cabling.mend:
            click.echo(f"  {exchange.one} and {exchange.other}")


def _adopt(app: App, macs: Mapping[str, str], yes: bool) -> None:
    from fleetctl.rack.loader import lock_file_of
    from fleetctl.switches.wiring import adopt

    lock = lock_file_of(app.rack_file, app.paths)
    for phone, mac in macs.items():
        click.echo(f"{phone}: {mac}", err=True)
    if yes or click.confirm(f"Write these into {lock}?", err=True):
        adopt(lock, app.rack, macs)
