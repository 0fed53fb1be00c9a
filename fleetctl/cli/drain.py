"""`fleetctl drain NODES --why REASON`"""

from __future__ import annotations

import getpass

import click

from fleetctl.cli.common import App, nodes_argument, pass_app


@click.command()
@nodes_argument
@click.option("--why", required=True, help="Reason, for whoever looks next.")
@pass_app
def command(app: App, nodes: tuple[str, ...], why: str) -> None:
    """Keep NODES out of new jobs until they are undrained.

    A running job goes on: its phones are draining until it ends. No reboot clears a drain.
    """
    from fleetctl.rack.nodesets import fold

    names = app.select_named(nodes)
    app.state.drain(names, who=getpass.getuser(), why=why)
    click.echo(f"{fold(names)}: drained", err=True)
