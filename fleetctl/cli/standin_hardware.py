"""`fleetctl standin hardware` and `hub`: what surrounds and feeds the stand-in phones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from fleetctl.cli.common import App, nodes_argument, output_option, pass_app
from fleetctl.cli.output import print_json, print_table, progress

LONGEST_STEP_SECONDS = 86_400.0
_COLUMNS = (
    *("PHONE", "AIR°C", "LOAD", "SPEED", "CPU°C", "SKIN°C", "BAT°C", "CHARGE", "AMPERE"),
    "REMARKS",
)
_WORN_PERCENT = 80


class _WithSettings(click.Command):
    """Its help ends with all that can be set."""

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        from standin.hardware.settings import SETTINGS

        with formatter.section("Settings"):
            formatter.write_dl([(f"{name}=", each.meaning) for name, each in SETTINGS.items()])


@click.command(cls=_WithSettings)
@click.argument("words", nargs=-1, metavar="[NODES] [SETTING=VALUE...]")
@click.option(
    "--pace",
    type=click.FloatRange(0, 3600),
    help="Of the whole rack: model seconds in a real one; 0 stops heat and battery.",
)
@click.option(
    "--step",
    type=click.FloatRange(0, LONGEST_STEP_SECONDS, min_open=True),
    metavar="SECONDS",
    help="Go forward by so much model time now; with --pace 0, only so.",
)
@click.option(
    "--load",
    type=click.FloatRange(0, 1),
    help="For --step: what all phones that are on compute meanwhile, 1 being all they can; "
    "else what they compute now.",
)
@output_option
@pass_app
def hardware(
    app: App,
    words: tuple[str, ...],
    pace: float | None,
    step: float | None,
    load: float | None,
    output: str,
) -> None:
    """Show heat, battery and power of phones, and set what acts on them.

    Such as: fleetctl standin hardware phone[001-003] ambient=35 fan=off
    """
    from standin.daemon.control import ask
    from standin.hardware.settings import parse_setting
    from standin.record import open_rig

    settings = [word for word in words if "=" in word]
    for text in settings:
        parse_setting(text)
    if load is not None and step is None:
        raise click.UsageError("--load is for --step.")
    nodes = tuple(word for word in words if "=" not in word)
    phones = app.select_named(nodes) if settings else app.select(nodes)
    folder = open_rig(app.rack).folders.root
    answer = ask(folder, "hardware", phones=phones, set=settings, pace=pace)
    if step is not None:
        answer = ask(folder, "hardware-step", phones=phones, seconds=step, load=load)
    if output == "json":
        print_json(answer)
        return
    print_table(
        _COLUMNS,
        (_row(phone) for phone in answer["phones"]),
    )
    if answer["pace"] != 1:
        progress().print(f"time goes at {answer['pace']:g} model seconds a second")


def _row(phone: dict[str, Any]) -> list[object]:
    return [
        phone["name"],
        f"{phone['ambient_celsius']:.0f}",
        f"{phone['load']:.0%}",
        f"{phone['speed']:.0%}",
        f"{phone['processor_celsius']:.0f}",
        f"{phone['skin_celsius']:.1f}",
        f"{phone['battery_celsius']:.1f}",
        f"{phone['charge_percent']:.0f}%",
        f"{phone['current_amperes']:+.2f}",
        ", ".join(_remarks(phone)),
    ]


def _remarks(phone: dict[str, Any]) -> Iterator[str]:
    """What is not as usual."""
    if not phone["is_on"]:
        yield "is off"
    if phone["thermal_status"]:
        yield f"thermal status {phone['thermal_status']}"
    if not phone["has_fan"]:
        yield "no fan"
    if not phone["is_plugged"]:
        yield "no power"
    if phone["outlet"] != phone["name"]:
        yield f"outlet {phone['outlet']}"
    if phone["health_percent"] < _WORN_PERCENT or phone["defect"] != "none":
        defect = "" if phone["defect"] == "none" else f" {phone['defect']}"
        yield f"battery {phone['health_percent']:.0f}%{defect}, {phone['cycles']:.0f} cycles"


@click.command()
@click.argument("what", type=click.Choice(["on", "off", "show"]))
@nodes_argument
@output_option
@pass_app
def hub(app: App, what: str, nodes: tuple[str, ...], output: str) -> None:
    """Switch the power outlets of phones on or off, as a rack's power hub does, or show them.

    It prints what the hub says of each outlet, and every phone that hangs on it. Whether power
    really flows only the phone knows (see the fault hub-lies).
    """
    from fleetctl.rack.nodesets import fold
    from standin.daemon.control import ask
    from standin.record import open_rig

    phones = app.select(nodes) if what == "show" else app.select_named(nodes)
    switched = {"on": True, "off": False, "show": None}[what]
    answer = ask(open_rig(app.rack).folders.root, "hub", phones=phones, on=switched)
    if output == "json":
        print_json(answer)
        return
    print_table(
        ["OUTLET", "STATE", "PHONES"],
        ((each["outlet"], each["state"], fold(each["phones"])) for each in answer["outlets"]),
    )
