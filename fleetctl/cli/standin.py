"""`fleetctl standin`: a rack of stand-in phones on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, complete_nodes, nodes_argument, output_option, pass_app
from fleetctl.cli.output import print_json, print_table, progress
from fleetctl.cli.standin_hands import COMMANDS as HAND_COMMANDS
from fleetctl.cli.standin_hardware import hardware, hub
from fleetctl.cli.standin_switch import switch
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.rack import Rack
    from standin.fabric import Kind


@click.group()
def command() -> None:
    """Run stand-in phones on this machine: containers that behave like phones."""


command.add_command(hardware)
command.add_command(hub)
command.add_command(switch)


@command.command()
@click.option("--phones", type=click.IntRange(1, 240), help="How many; else as the rack file says.")
@click.option(
    "--switches", type=click.IntRange(0, 16), help="How many; else as the rack file says."
)
@click.option("--rate", metavar="RATE", help="Shape each phone's link to this, such as 200mbit.")
@click.option("--openmpi", type=click.Choice(["5.0", "4.1"]), help="Series of Open MPI to install.")
@click.option(
    "--fabric",
    type=click.Choice(["bridge", "ovs"]),
    help="Switches: plain bridges, or Open vSwitch with VLANs, MAC tables and command lines; else "
    "ovs where the rack file has a switch to be configured.",
)
@click.option("--boxed", is_flag=True, help="Phones as out of the box: not enrolled yet.")
@output_option
@pass_app
def up(
    app: App,
    phones: int | None,
    switches: int | None,
    rate: str | None,
    openmpi: str | None,
    fabric: Kind | None,
    boxed: bool,
    output: str,
) -> None:
    """Bring the rack up, or mend what is missing of one that is up.

    With --phones, --switches or --openmpi other than the rack file's, a rack file is written into
    the rack's folder, and the line to use it is printed.
    """
    from fleetctl.rack import load_rack
    from standin import lifecycle
    from standin.fabric import check_rate
    from standin.record import settle_rack_file

    if rate:
        check_rate(rate)
    file = settle_rack_file(app.rack_file, app.rack, phones, switches, openmpi)
    with _say() as say:
        done = lifecycle.up(load_rack(file), file, rate, say, boxed, fabric)
    rack = load_rack(file)
    for remark in done.remarks:
        progress().print(f"! {remark}", style="yellow")
    if output == "json":
        print_json(_rack_document(rack, file) | asdict(done))
        return
    print_table(
        ["PHONE", "ADDRESS", "SWITCH", "PORT", "SERIAL", "MAC"],
        (
            (phone.name, phone.address, phone.switch, phone.port, phone.serial, phone.mac)
            for phone in rack.phones.values()
        ),
    )
    verb = "was up already, " if done.was_up else ""
    progress().print(f"rack {rack.name} {verb}started {len(done.started)} containers")
    progress().print(f"controller {rack.network.controller}, services {rack.network.services}")
    for line in done.switches:
        progress().print(line, markup=False)
    if file != app.rack_file:
        progress().print(f"use it with: export PHONERACK_RACK={file}")


@command.command()
@click.option(
    "--all", "every", is_flag=True, help="All stand-in racks on this machine, of every home."
)
@click.option("--images", is_flag=True, help="Remove the images too.")
@output_option
@pass_app
def down(app: App, every: bool, images: bool, output: str) -> None:
    """Remove the rack without a trace, its folder with runs and data too."""
    from standin import images as standin_images
    from standin import lifecycle

    names = lifecycle.standing_racks() if every else [app.rack.name]
    with _say() as say:
        gone = {}
        for name in names:
            say(f"taking {name} down")
            gone[name] = lifecycle.down(name, wherever=every)
        if images:
            say("removing images")
            if kept := standin_images.remove_all():
                progress().print(f"in use by another rack, so they stay: {', '.join(kept)}")
    if output == "json":
        print_json({"racks": gone})
        return
    for name, hosts in gone.items():
        progress().print(f"rack {name} is down, {len(hosts)} containers removed")
    if not every and not app.rack_file.exists():
        progress().print("its rack file went with it: unset PHONERACK_RACK")


class _WithFaults(click.Command):
    """Its help ends with all faults that there are."""

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        from standin.faults import NATURES, form

        with formatter.section("Faults"):
            formatter.write_dl([(form(kind), nature.meaning) for kind, nature in NATURES.items()])


@command.command(cls=_WithFaults)
@click.argument("nodes", shell_complete=complete_nodes)
@click.argument("faults", nargs=-1, required=True, metavar="FAULT...")
@pass_app
def fault(app: App, nodes: str, faults: tuple[str, ...]) -> int:
    """Set faults on phones, one or several at once; `fleetctl standin heal` undoes them all."""
    from standin.faults import parse_fault
    from standin.record import open_rig
    from standin.trouble import set_faults

    wanted = [parse_fault(text) for text in faults]
    rig = open_rig(app.rack)
    phones = app.select([nodes])
    return _report(phones, set_faults(rig, phones, wanted), " ".join(map(str, wanted)))


@command.command()
@nodes_argument
@pass_app
def heal(app: App, nodes: tuple[str, ...]) -> int:
    """Undo all faults of phones; of all phones when none is named."""
    from standin.record import open_rig
    from standin.trouble import heal as heal_phones

    rig = open_rig(app.rack)
    phones = app.select(nodes)
    return _report(phones, heal_phones(rig, phones), "healed")


@command.command("list")
@output_option
@pass_app
def list_(app: App, output: str) -> None:
    """Show the stand-in phones, their faults, and the background process that plays them."""
    from standin.daemon.control import inspect
    from standin.faults import describe
    from standin.record import open_rig
    from standin.trouble import look

    rig = open_rig(app.rack)
    rows = [
        (
            phone,
            seen.state,
            None if seen.faults is None else [describe(*item) for item in seen.faults.items()],
            seen.why,
        )
        for phone, seen in look(rig).items()
    ]
    daemon = inspect(rig.folders.root)
    if output == "json":
        keys = ("name", "state", "faults", "why_dead")
        phones = [dict(zip(keys, row, strict=True)) for row in rows]
        print_json({"phones": phones, "daemon": asdict(daemon)})
        return
    print_table(
        ["PHONE", "STATE", "FAULTS"],
        (
            (phone, state, _cure(state, why) if faults is None else " ".join(faults))
            for phone, state, faults, why in rows
        ),
    )
    if daemon.pid is None:
        progress().print("! the background process is down: `fleetctl standin up` starts it")
    for name, problem in daemon.problems.items():
        progress().print(f"! background service {name}: {problem}", markup=False)


def _cure(state: str, why: str | None) -> str:
    """Of a phone that no fault took down."""
    if state == "missing":
        return "`fleetctl standin up` makes it anew"
    return f"died by itself{f' ({why})' if why else ''}: heal it"


for hands in HAND_COMMANDS:
    command.add_command(hands)


def _rack_document(rack: Rack, file: Path) -> dict[str, object]:
    fields = ("name", "address", "switch", "port", "serial", "mac")
    return {
        "rack": rack.name,
        "rack_file": str(file),
        "controller": rack.network.controller,
        "services": rack.network.services,
        "phones": [{key: getattr(phone, key) for key in fields} for phone in rack.phones.values()],
    }


def _report(phones: list[str], problems: dict[str, str], done: str) -> int:
    """One line for what worked, one a phone for what did not; returns the exit code."""
    from fleetctl.rack.nodesets import fold

    fine = [phone for phone in phones if phone not in problems]
    if fine:
        progress().print(f"{fold(fine)}: {done}", markup=False)
    for phone, problem in problems.items():
        progress().print(f"{phone}: {problem}", style="red", markup=False)
    return ExitCode.SOME_PHONES_FAILED if problems else ExitCode.DONE


@contextmanager
def _say() -> Iterator[Callable[[str], None]]:
    """A line on stderr that tells the step at hand; plain lines where nobody watches."""
    console = progress()
    if not console.is_terminal:
        last: list[str] = []

        def say(text: str) -> None:
            step = text.split(" ", 1)[0]
            if step not in last:
                last[:] = [step]
                console.print(text, markup=False)

        yield say
        return
    with console.status("") as status:
        yield lambda text: status.update(text)
