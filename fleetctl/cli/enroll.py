"""`fleetctl enroll`: from phones on USB to phones that answer ssh."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, complete_nodes, output_option, pass_app
from fleetctl.cli.output import print_json, print_table, progress
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.provision.enrol import Options
    from fleetctl.provision.enrol_look import Report


@click.command()
@click.option("--serial", "serials", multiple=True, help="Only this phone, even if it is enrolled.")
@click.option("--name", help="The place in the rack that the phone takes; else the next free one.")
@click.option(
    "--replace",
    metavar="OLD",
    help="Take over the place of a broken phone.",
    shell_complete=complete_nodes,
)
@click.option(
    "--wire", is_flag=True, help="Meet the enrolled phones again, in the network of their rack."
)
@click.option(
    "--wait",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for dialogs to be accepted, or for phones on the wire.",
)
@output_option
@pass_app
def command(
    app: App,
    serials: tuple[str, ...],
    name: str | None,
    replace: str | None,
    wire: bool,
    wait: float,
    output: str,
) -> int:
    """Enrol the phones that are plugged into this machine by USB.

    Sets their Android up, installs Termux and its add-ons from the rack's folder `apks`, brings
    the operator's key and starts ssh. Phones that are enrolled are left alone, unless --serial
    names them.
    """
    from fleetctl.provision.enrol import Options

    if name and replace:
        raise click.UsageError("--replace OLD takes the place OLD: leave --name out.")
    if wire and (serials or name or replace):
        raise click.UsageError("--wire meets all phones that wait for it: leave the rest out.")
    options = Options(serials, name, replace, wait)
    reports = asyncio.run(_meet(app, wait) if wire else _enrol(app, options))
    if output == "json":
        print_json({"phones": [asdict(report) for report in reports]})
    else:
        _show(app, reports, by_usb=not wire)
    return _exit_code(reports)


async def _enrol(app: App, options: Options) -> list[Report]:
    from fleetctl.cli.enroll_view import watching
    from fleetctl.provision.enrol import enrol

    with watching() as watch:
        return await enrol(app.rack_file, app.rack, app.paths, options, watch)


async def _meet(app: App, wait_seconds: float) -> list[Report]:
    from fleetctl.cli.enroll_view import watching
    from fleetctl.provision.wire import enrol_on_wire

    with watching() as watch:
        return await enrol_on_wire(app.rack_file, app.rack, app.paths, wait_seconds, watch)


def _show(app: App, reports: Sequence[Report], *, by_usb: bool) -> None:
    """A table of all phones, then what hands must do, and what comes next."""
    if not reports:
        progress().print(
            "adb sees no phone: plug one in, switch USB debugging on, and look whether another adb "
            "server holds it (`adb kill-server`)"
        )
        return
    print_table(
        ["SERIAL", "PHONE", "MODEL", "STATE", "WHY"],
        ((one.serial, one.name, one.model or None, one.end, one.reason or None) for one in reports),
    )
    say = progress()
    for one in reports:
        for remark in one.remarks:
            say.print(f"! {one.name}: {remark}", style="yellow", markup=False)
    hands = [one for one in reports if one.end == "needs-hands"]
    if hands:
        say.print("Needs hands:")
        for one in hands:
            say.print(f"  {one.name or one.serial}: {one.reason}", markup=False)
    if by_usb and any(one.end in ("enrolled", "known") and not one.address for one in reports):
        steps = {
            "ethernet": "unplug them, plug them into their hubs",
            "wifi": "have them join the rack's Wi-Fi",
        }[app.rack.network.medium]
        if app.rack.network.dhcp == "ours":
            steps += ", run `ansible-playbook site.yml -t controller`, so that they get a lease"
        say.print(f"Now {steps}, and run `fleetctl enroll --wire`.", markup=False)


def _exit_code(reports: Sequence[Report]) -> ExitCode:
    if not reports:
        return ExitCode.NONE_REACHABLE
    if all(report.end in ("enrolled", "known") for report in reports):
        return ExitCode.DONE
    return ExitCode.SOME_PHONES_FAILED
