"""`python -m standin.daemon FOLDER`: the daemon of the stand-in rack kept in that folder."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import suppress
from pathlib import Path

from fleetctl.errors import FleetError
from standin.daemon.control import serve
from standin.daemon.desk import Desk
from standin.daemon.process import only_one
from standin.daemon.services import SERVICES, keep_running
from standin.record import is_standin, recorded_rig
from standin.rig import Rig

GONE_POLL_SECONDS = 2.0

log = logging.getLogger("standin.daemon")


async def run(rig: Rig) -> None:
    """All services and the control socket, until a signal ends it or the rack is gone."""
    desk = Desk(rig)
    tasks = [asyncio.create_task(serve(desk)), asyncio.create_task(_rack_gone(rig.paths.dir))]
    tasks += [
        asyncio.create_task(keep_running(name, service, desk)) for name, service in SERVICES.items()
    ]
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    needed = tasks[:2]
    stopped = asyncio.create_task(ended.wait())
    done, _ = await asyncio.wait([*needed, stopped], return_when=asyncio.FIRST_COMPLETED)
    log.info("ending")
    for task in (*tasks, stopped):
        task.cancel()
    await asyncio.gather(*tasks, stopped, return_exceptions=True)
    for task in done & set(needed):
        task.result()


async def _rack_gone(folder: Path) -> None:
    """Returns when the rack's folder has gone, whoever removed it."""
    while is_standin(folder):
        await asyncio.sleep(GONE_POLL_SECONDS)


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        rig = recorded_rig(Path(sys.argv[1]))
        with only_one(rig.rack.name):
            log.info("rack %s: %d phones", rig.rack.name, len(rig.rack.phones))
            asyncio.run(run(rig))
    except FleetError as problem:
        log.error("%s", problem)
        return 1
    return 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
