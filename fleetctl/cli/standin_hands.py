"""`fleetctl standin plug|unlock|lock|authorize|apks`: what hands do to stand-in phones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fleetctl.cli.common import App, complete_nodes, pass_app
from fleetctl.cli.output import progress
from fleetctl.errors import ExitCode


@click.command()
@click.argument("nodes", shell_complete=complete_nodes)
@click.argument("where", type=click.Choice(["controller", "hub", "nothing"]))
@pass_app
def plug(app: App, nodes: str, where: str) -> int:
    """Plug phones into the controller (adb), the hub (Ethernet, power), or nothing.

    A phone has one port: on the controller it has no network, on the hub no adb by USB.
    """
    return _order(app, nodes, "plug", f"on the {where}" if where != "nothing" else "off", usb=where)


@click.command()
@click.argument("nodes", shell_complete=complete_nodes)
@pass_app
def unlock(app: App, nodes: str) -> int:
    """Unlock the screens of phones."""
    return _order(app, nodes, "unlock", "unlocked")


@click.command()
@click.argument("nodes", shell_complete=complete_nodes)
@click.option("--pin", is_flag=True, help="By a PIN, which nothing but hands can enter.")
@pass_app
def lock(app: App, nodes: str, pin: bool) -> int:
    """Lock the screens of phones."""
    return _order(app, nodes, "lock", "locked", pin=pin)


@click.command()
@click.argument("nodes", shell_complete=complete_nodes)
@pass_app
def authorize(app: App, nodes: str) -> int:
    """Accept the dialog by which phones ask whether the controller may use adb."""
    return _order(app, nodes, "authorize", "authorized")


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--debuggable", is_flag=True, help="As a debug build, which run-as may enter.")
@click.option("--signer", default="termux", show_default=True, help="Whose key signs them.")
@pass_app
def apks(app: App, folder: Path, debuggable: bool, signer: str) -> None:
    """Write stand-ins for the packages of Termux, Termux:API and Termux:Boot."""
    from standin.android import apk
    from standin.record import open_rig

    key = apk.load_signer(open_rig(app.rack).folders.signer(signer))
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in apk.standin_apps(debuggable).items():
        (folder / name).write_bytes(apk.build(content, key))
        progress().print(str(folder / name), markup=False)


COMMANDS = (plug, unlock, lock, authorize, apks)


def _order(app: App, nodes: str, order: str, done: str, **arguments: Any) -> int:
    from fleetctl.rack.nodesets import fold
    from standin.daemon.control import ask
    from standin.record import open_rig

    folder = open_rig(app.rack).folders.root
    phones = app.select([nodes])
    problems = ask(folder, order, phones=phones, **arguments)["problems"]
    if fine := [phone for phone in phones if phone not in problems]:
        progress().print(f"{fold(fine)}: {done}", markup=False)
    for problem in problems.values():
        progress().print(problem, style="red", markup=False)
    return ExitCode.SOME_PHONES_FAILED if problems else ExitCode.DONE
