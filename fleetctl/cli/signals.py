"""What ends a program in a terminal ends what it has begun on the phones first."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleetctl.remote.execute import Execution


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """A closed terminal and a shutdown interrupt what is done here as Ctrl-C does."""
    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup wishes
        numbers.append(signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
