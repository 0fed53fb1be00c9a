"""fleetctl serve"""

from __future__ import annotations

import asyncio
import signal
import time

import click

from fleetctl.cli.common import App, pass_app


@click.command()
@click.option(
    "--metrics",
    metavar="ADDRESS[:PORT]|off",
    help="Where the fleet exporter listens; by default on 127.0.0.1:9867, or on the controller's "
    "address in the rack where Prometheus is on another machine.",
)
@pass_app
def command(app: App, metrics: str | None) -> None:
    """Serve the rack: start queued jobs, keep every job supervised, export metrics.

    In the foreground, until Ctrl-C or SIGTERM; jobs go on then, and the next serve takes them
    over. Each job has a supervisor of its own, so a restart disturbs none. One serve a rack.
    """
    from fleetctl.rack.variables import fleet_exporter_host
    from fleetctl.serve.exporter import read_address
    from fleetctl.serve.lock import serving
    from fleetctl.serve.queue import Queue
    from fleetctl.serve.run import Loop
    from fleetctl.serve.service import Service

    address = read_address(fleet_exporter_host(app.rack) if metrics is None else metrics)
    with serving(app.paths.serve_lock), Queue(app.paths.queue_db) as queue:
        service = Service(app.rack_file.resolve(), app.paths, app.state, queue, _say)
        _say(f"serving rack {app.rack.name}")

        async def main() -> None:
            loop = Loop(service, address)
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, loop.stop.set)
            await loop.run()

        asyncio.run(main())
        _say("no longer serving; jobs that run go on")


def _say(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)
