"""The services of a rack's daemon, and how they are kept running.

A new one is a line in SERVICES: its name, and `async def run(desk)`, which runs until it is
cancelled, adds what it answers to `desk.orders`, and leaves nothing behind when it is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

from standin import flapping, phantoms
from standin.android import service as android
from standin.daemon.desk import Condition, Desk, Run
from standin.hardware import service as hardware
from standin.openvswitch import service as switches

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0

SERVICES: Mapping[str, Run] = {
    "android": android.run,
    "hardware": hardware.run,
    "flapping": flapping.run,
    "phantoms": phantoms.run,
    "switches": switches.run,
}

log = logging.getLogger(__name__)


async def keep_running(name: str, run: Run, desk: Desk) -> None:
    """Run a service, and run it again whenever it fails, after a wait that doubles each time.

    One that has run for LONGEST_WAIT_SECONDS counts as well again. One that returns has done its
    work.
    """
    condition = desk.services[name] = Condition()
    wait = FIRST_WAIT_SECONDS
    while True:
        started = time.monotonic()
        try:
            await run(desk)
        except Exception as problem:
            if time.monotonic() - started > LONGEST_WAIT_SECONDS:
                wait = FIRST_WAIT_SECONDS
            log.exception("service %s failed; again in %g s", name, wait)
            condition.state, condition.problem = "failed", f"{type(problem).__name__}: {problem}"
        else:
            condition.state = "ended"
            return
        await asyncio.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT_SECONDS)
        condition.state = "running"
