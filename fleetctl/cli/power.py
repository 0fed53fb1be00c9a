"""`fleetctl power NODES [--outlet|--port off|on|cycle]`"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, nodes_argument, output_option, pass_app
from fleetctl.cli.signals import ended_as_by_ctrl_c
from fleetctl.cli.switch_options import SwitchOptions, switch_options
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.power.outlets import Fed
    from fleetctl.power.ports import Outcome
    from fleetctl.switches.ports import PortState


@click.command()
@nodes_argument
@click.option(
    "--outlet",
    type=click.Choice(["show", "off", "on", "cycle"]),
    help="Cut the phone's power outlet off, or give it back.",
)
@click.option(
    "--port",
    type=click.Choice(["show", "off", "on", "cycle"]),
    help="Cut the phone's switch port off, or give it back.",
)
@switch_options("--ssh-port")
@output_option
@pass_app
def command(
    app: App,
    nodes: tuple[str, ...],
    outlet: str | None,
    port: str | None,
    login: SwitchOptions,
    output: str,
) -> int:
    """Show what feeds NODES, their outlets or their switch ports, or switch it off and on.

    Phones are drained first, those that share an outlet too, and refused while a job has one
    (exit code 5). It counts only when the phone itself says so: "power not cut" where the hub says
    off and the phone still charges. `on` lifts the drains that `off` set, and no other. Ctrl-C in a
    `cycle` switches on again first.

    A port that feeds the phone's adapter (PoE) stops feeding it, another is shut; it stays off over
    reboots and `provision switches`. Without --outlet and --port, ports are shown, or outlets where
    no switch is managed. Ends with 1 when nothing was switched as told, with 3 when some was, or
    when phones do not answer after `on`.
    """
    if outlet and port:
        raise click.UsageError("--outlet and --port are two things: one at a time.")
    names = app.select_named(nodes)
    managed = any(switch.platform != "unmanaged" for switch in app.rack.switches.values())
    if outlet or (not port and app.rack.outlets and not managed):
        with ended_as_by_ctrl_c():
            return _outlets(app, names, outlet or "show", output)
    with ended_as_by_ctrl_c():
        return _ports(app, names, port or "show", login, output)


def _outlets(app: App, names: list[str], action: str, output: str) -> int:
    from fleetctl.cli.output import print_json, print_table, progress
    from fleetctl.rack.nodesets import fold_sentences

    outcomes = asyncio.run(_switch_outlets(app, names, action))
    failed = [each.phone for each in outcomes if not each.ok]
    app.note_failed(f"power --outlet {action}", failed)
    if output == "json":
        print_json({"rack": app.rack.name, "outlets": [asdict(each) for each in outcomes]})
    else:
        words = {True: "yes", False: "no", None: None}
        print_table(
            ("PHONE", "OUTLET", "PLUGGED", "RESULT", "HUB"),
            (
                (each.phone, each.outlet, words[each.plugged], each.verdict, each.hub)
                for each in outcomes
            ),
        )
    sentences = [
        (each.phone, f"{each.phone}: {each.verdict or 'unknown'}{_why(each)}")
        for each in outcomes
        if each.problem or not each.ok
    ]
    for line in fold_sentences(sentences):
        progress().print(line, markup=False, soft_wrap=True)
    if not failed:
        return ExitCode.DONE
    return ExitCode.SOME_PHONES_FAILED if len(failed) < len(outcomes) else ExitCode.FAILED


def _why(fed: Fed) -> str:
    if fed.problem:
        return f": {fed.problem}"
    if fed.verdict == "power not cut":
        return ": the phone still charges; look which outlet it hangs on, and at the hub"
    return ": the phone says that it is not charged; look at its cable and at the hub"


def _say(text: str) -> None:
    """A terminal that has gone away keeps nobody from giving the power back."""
    from fleetctl.cli.output import progress

    with suppress(OSError):
        progress().print(text, markup=False)


async def _switch_outlets(app: App, names: list[str], action: str) -> list[Fed]:
    from fleetctl.power.actuator import Actuator
    from fleetctl.power.outlets import OutletPower
    from fleetctl.remote import Fleet
    from fleetctl.state import user

    async with Fleet(app.rack, app.paths) as fleet:
        power = OutletPower(
            app.rack,
            app.state,
            fleet,
            Actuator(app.rack_file),
            user(),
            say=_say,
        )
        acts = {"off": power.off, "on": power.on, "cycle": power.cycle, "show": power.show}
        return await acts[action](names)


def _ports(app: App, names: list[str], action: str, login: SwitchOptions, output: str) -> int:
    from fleetctl.power.ports import PortPower
    from fleetctl.state import user
    from fleetctl.switches.ports import PortControl

    phones = [app.rack.phones[name] for name in names]
    power = PortPower(
        PortControl(login.switches(app)),
        app.state,
        user(),
        say=_say,
    )
    acts = {"off": power.off, "on": power.on, "cycle": power.cycle, "show": power.show}
    outcomes = acts[action](phones)
    _print(app, outcomes, output)
    lost = [outcome.phone for outcome in outcomes if not outcome.answers]
    if action in ("off", "show") or not lost:
        return ExitCode.DONE
    app.note_failed(f"power --port {action}", lost)
    return ExitCode.SOME_PHONES_FAILED


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
