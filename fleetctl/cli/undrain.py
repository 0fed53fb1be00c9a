"""`fleetctl undrain NODES`"""

from __future__ import annotations

import click

from fleetctl.cli.common import App, nodes_argument, output_option, pass_app


@click.command()
@nodes_argument
@output_option
@pass_app
def command(app: App, nodes: tuple[str, ...], output: str) -> None:
    """Let NODES take jobs again, whoever or whatever drained them."""
    from fleetctl.cli.output import print_drains
    from fleetctl.rack.nodesets import fold

    names = app.select_named(nodes)
    app.state.undrain(names)
    if output == "json":
        print_drains({name: [] for name in names})
        return
    click.echo(f"{fold(names)}: undrained", err=True)
