"""`fleetctl power NODES [--port off|on|cycle]`"""

from __future__ import annotations

import getpass
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, nodes_argument, output_option, pass_app
from fleetctl.cli.switch_options import SwitchOptions, switch_options
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.power.ports import Outcome
    from fleetctl.switches.ports import PortState


@click.command()
@nodes_argument
@click.option(
    "--port",
    "action",
    type=click.Choice(["off", "on", "cycle"]),
    help="Cut the phone's switch port off, or give it back; without, only show it.",
)
@switch_options("--ssh-port")
@output_option
@pass_app
def command(
    app: App, nodes: tuple[str, ...], action: str | None, login: SwitchOptions, output: str
) -> int:
    """Show the switch ports of NODES as their switches see them, or switch them off and on.

    A port that feeds the phone's adapter (PoE) stops feeding it, another is shut. Phones are
    drained first, and refused while a job has them (exit code 5). It counts only when switch and
    phone agree. The port stays off over reboots and `provision switches`, until it is switched on.
    Ends with 3 when phones do not answer after `on`.
    """
    from fleetctl.cli.output import progress
    from fleetctl.power.ports import PortPower
    from fleetctl.switches.ports import PortControl

    phones = [app.rack.phones[name] for name in app.select_named(nodes)]
    console = progress()
    power = PortPower(
        PortControl(login.switches(app)),
        app.state,
        getpass.getuser(),
        say=lambda text: console.print(text, markup=False),
    )
    acts = {"off": power.off, "on": power.on, "cycle": power.cycle, None: power.show}
    outcomes = acts[action](phones)
    _print(app, outcomes, output)
    lost = action in ("on", "cycle") and not all(outcome.answers for outcome in outcomes)
    return ExitCode.SOME_PHONES_FAILED if lost else ExitCode.DONE


def _print(app: App, outcomes: list[Outcome], output: str) -> None:
    from fleetctl.cli.output import print_json, print_table

    if output == "json":
        ports = {item.phone: {**asdict(item.state), "answers": item.answers} for item in outcomes}
        print_json({"rack": app.rack.name, "ports": ports})
        return
    print_table(
        ("PHONE", "PORT", "ENABLED", "LINK", "POWER", "ANSWERS"),
        (
            (
                item.phone,
                f"{item.state.switch}:{item.state.port}",
                "yes" if item.state.enabled else "no",
                f"{item.state.speed_mbits} Mb/s" if item.state.speed_mbits else "none",
                _power(item.state),
                "yes" if item.answers else "no",
            )
            for item in outcomes
        ),
    )


def _power(state: PortState) -> str | None:
    """What the port gives to the phone's adapter, as far as its switch tells."""
    if not state.can_feed:
        return None
    if not state.poe_enabled:
        return "off"
    return "on" if state.fed_watts is None else f"{state.fed_watts:g} W"
