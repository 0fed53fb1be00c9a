"""`fleetctl status --watch`: looks again and again, and redraws."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from fleetctl.cli.common import App

if TYPE_CHECKING:
    from rich.console import ConsoleDimensions, RenderableType

    from fleetctl.checks.alerts import Alert
    from fleetctl.checks.vitals import Vitals
    from fleetctl.cli.status_view import Row
    from fleetctl.rack import Rack
    from fleetctl.remote import Fleet

POLL_PAUSE_SECONDS = 2.0
REFRESH_SECONDS = 1.0
ALERTS_PAUSE_SECONDS = 10.0


async def watch(app: App, names: list[str]) -> None:
    """Redraw until Ctrl-C. Each phone is polled on its own, so one that hangs delays no other.

    What the state cannot keep now is kept once it can be used again.
    """
    from rich.live import Live

    from fleetctl.checks.vitals import look_at
    from fleetctl.cli.kept_looks import keep_and_read
    from fleetctl.cli.output import stdout
    from fleetctl.cli.status_view import make_rows
    from fleetctl.remote import Fleet

    vitals: dict[str, Vitals] = {}
    fresh: dict[str, Vitals] = {}
    alerts: list[Alert] | None = []

    async def poll(fleet: Fleet, name: str) -> None:
        while True:
            fresh[name] = await look_at(fleet, name)
            await asyncio.sleep(POLL_PAUSE_SECONDS)

    async def poll_alerts() -> None:
        from fleetctl.checks.alerts import firing

        nonlocal alerts
        while True:
            alerts = await asyncio.to_thread(firing, app.rack)
            await asyncio.sleep(ALERTS_PAUSE_SECONDS)

    console = stdout()
    async with Fleet(app.rack, app.paths) as fleet, asyncio.TaskGroup() as polls:
        for name in names:
            polls.create_task(poll(fleet, name))
        polls.create_task(poll_alerts())
        with Live(console=console, auto_refresh=False) as live:
            while True:
                known, trouble = keep_and_read(app, fresh)
                vitals |= fresh
                if trouble is None:
                    fresh.clear()
                rows = make_rows(app.rack, names, known, vitals, time.time())
                said = [str(trouble)] if trouble else []
                live.update(compose(app.rack, rows, said, alerts, console.size), refresh=True)
                await asyncio.sleep(REFRESH_SECONDS)


def compose(
    rack: Rack,
    rows: list[Row],
    said: list[str],
    alerts: list[Alert] | None,
    size: ConsoleDimensions,
) -> RenderableType:
    """The rack at a glance, and below it the phones one by one where there is room for all.

    `said` comes before the remarks that phones give rise to.
    """
    from rich.console import Group

    from fleetctl.cli import rack_view, status_view

    width, height = size
    remarks = [*said, *status_view.remarks(rows)]
    glance = rack_view.render(rack, rows, remarks, alerts, width, height, time.time())
    left = height - 1 - len(glance.split("\n"))
    if len(rows) + 2 > left:
        return glance
    return Group(glance, "", status_view.phone_table(rack, rows, width))
