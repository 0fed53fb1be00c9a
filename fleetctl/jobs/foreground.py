"""A supervision in a terminal: what Ctrl-C, a closed terminal and a shutdown mean to it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from fleetctl.jobs.supervise import Watch, supervise
from fleetctl.jobs.verdict import Verdict


@dataclass(slots=True)
class Foreground:
    """Turns signals into what they mean at this moment.

    Ctrl-C before the start gives up; after it, it stops the run everywhere; once more, it leaves
    that to a later `fleetctl stop`. A closed terminal or a shutdown leaves the run going on.
    """

    watch: Watch | None = None
    left_alone: bool = False
    _task: asyncio.Task[object] | None = field(default=None)

    def run[Outcome](self, main: Callable[[Foreground], Awaitable[Outcome]]) -> Outcome | None:
        """Run `main`; None when a closed terminal ended it. Raises KeyboardInterrupt."""

        async def guarded() -> Outcome | None:
            self._task = asyncio.current_task()
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            loop.add_signal_handler(signal.SIGTERM, self._leave)
            if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup wishes
                loop.add_signal_handler(signal.SIGHUP, self._leave)
            try:
                return await main(self)
            except asyncio.CancelledError:
                if self.left_alone:
                    return None
                raise KeyboardInterrupt from None

        return asyncio.run(guarded())

    async def supervise(self, watch: Watch) -> Verdict:
        """Supervise; from here on Ctrl-C stops the run."""
        self.watch = watch
        return await supervise(watch)

    def _interrupt(self) -> None:
        if self.watch is not None and not self.watch.stop_requested.is_set():
            with suppress(OSError):
                self.watch.run.record("stop-requested", by="Ctrl-C")
            self.watch.stop_requested.set()
        elif self._task is not None:
            if self.watch is not None:
                name = self.watch.run.name
                self.watch.on_remark(f"{name} is not stopped yet; `fleetctl stop {name}` ends it")
            self._task.cancel()

    def _leave(self) -> None:
        self.left_alone = True
        if self._task is not None:
            self._task.cancel()
