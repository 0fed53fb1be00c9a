"""What ends a program in a terminal ends its commands on the phones first."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleetctl.remote.execute import Execution


def end_with_the_terminal(*executions: Execution) -> None:
    """Ctrl-C, a closed terminal and a shutdown stop the executions, in the running loop."""

    def stop() -> None:
        for execution in executions:
            execution.stop()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop)
    loop.add_signal_handler(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup wishes
        loop.add_signal_handler(signal.SIGHUP, stop)
