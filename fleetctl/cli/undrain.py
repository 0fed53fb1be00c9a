"""`fleetctl undrain NODES`"""

from __future__ import annotations

import click

from fleetctl.cli.common import App, nodes_argument, pass_app


@click.command()
@nodes_argument
@pass_app
def command(app: App, nodes: tuple[str, ...]) -> None:
    """Let NODES take jobs again, whoever or whatever drained them."""
    from fleetctl.rack.nodesets import fold

    names = app.select_named(nodes)
    app.state.undrain(names)
    click.echo(f"{fold(names)}: undrained", err=True)
