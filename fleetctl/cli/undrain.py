"""`fleetctl undrain NODES`"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, nodes_argument, output_option, pass_app

if TYPE_CHECKING:
    from fleetctl.state import Drain


@click.command()
@nodes_argument
@output_option
@pass_app
def command(app: App, nodes: tuple[str, ...], output: str) -> None:
    """Let NODES take jobs again, whoever or whatever drained them, and say who that was."""
    from fleetctl.cli.output import print_drains
    from fleetctl.rack.nodesets import fold_sentences

    names = app.select_named(nodes)
    lifted = app.state.undrain(names)
    if output == "json":
        print_drains({name: [] for name in names})
    for line in fold_sentences(_told(names, lifted)):
        click.echo(line, err=True)


def _told(names: Sequence[str], lifted: Mapping[str, Sequence[Drain]]) -> Iterator[tuple[str, str]]:
    """What was lifted of each phone, and what that does not mend."""
    cures = _cures()
    for name in names:
        if name not in lifted:
            yield name, f"{name}: was not drained"
        for drain in lifted.get(name, ()):
            yield name, f"{name}: lifted the drain by {drain.by} ({drain.why})"
        for who in dict.fromkeys(drain.who for drain in lifted.get(name, ())):
            if who in cures:
                yield name, f"{name}: {cures[who].format(name=name)}"


def _cures() -> dict[str, str]:
    """For drains that stand for something that is still so without them."""
    from fleetctl.power.outlets import LATCH_DRAIN, OFF_DRAIN
    from fleetctl.switches.fleet import CUT_DRAINS

    port = "its switch port is as it was: `fleetctl power {name} --port on` gives it back"
    outlet = "its outlet is as it was: `fleetctl power {name} --outlet on` gives it back"
    latch = "guard drains it again until `fleetctl guard clear {name} --why …`"
    return {**dict.fromkeys(CUT_DRAINS, port), OFF_DRAIN: outlet, LATCH_DRAIN: latch}
