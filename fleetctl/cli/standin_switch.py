"""`fleetctl standin switch`: how the stand-in switches are, and how troublesome."""

from __future__ import annotations

from typing import Any

import click

from fleetctl.cli.common import App, output_option, pass_app
from fleetctl.cli.output import print_json, print_table


class _WithKnobs(click.Command):
    """Its help ends with all that can be set."""

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        from standin.switches.knobs import meanings

        with formatter.section("Knobs"):
            formatter.write_dl([(f"{name}=", meaning) for name, meaning in meanings().items()])


@click.command("switch", cls=_WithKnobs)
@click.argument("words", nargs=-1, metavar="[SWITCH...] [KNOB=VALUE...]")
@click.option("--usual", is_flag=True, help="First away with all troubles.")
@output_option
@pass_app
def switch(app: App, words: tuple[str, ...], usual: bool, output: str) -> None:
    """Show the switches that have a command line, and make them troublesome.

    Such as: fleetctl standin switch sw1 latency=0.2 freeze=20
    """
    from fleetctl.rack import InputError
    from standin.daemon.control import ask
    from standin.record import open_rig
    from standin.switches.device import Knobs
    from standin.switches.knobs import turned

    knobs = [word for word in words if "=" in word]
    names = [word for word in words if "=" not in word]
    turned(Knobs(), knobs)
    if (knobs or usual) and not names:
        raise click.UsageError("Name the switches whose knobs are meant.")
    rig = open_rig(app.rack)
    if rig.ovs is None or not rig.ovs.managed:
        raise InputError(
            "no switch of this rack has a command line: give one a platform in the rack file "
            "(cisco_ios or arista_eos), then `fleetctl standin down` and `up`"
        )
    answer = ask(rig.folders.root, "switches", names=names, set=knobs, usual=usual)
    shown = [item for item in answer["switches"] if not names or item["name"] in names]
    if output == "json":
        print_json({"switches": shown})
        return
    print_table(("SWITCH", "HOSTNAME", "STATE", "SAVED", "KNOBS", "LAST"), map(_row, shown))


def _row(item: dict[str, Any]) -> tuple[object, ...]:
    state = "down" if item["down"] else "frozen" if item["frozen"] else "up"
    last = item["log"][-1] if item["log"] else None
    saved = "yes" if item["saved"] else "no"
    return item["name"], item["hostname"], state, saved, " ".join(item["knobs"]), last
