"""A supervision in a terminal: what Ctrl-C, a closed terminal and a shutdown mean to it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from fleetctl.jobs import energy, limit
from fleetctl.jobs.recover import carry
from fleetctl.jobs.room import Room
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.supervise import Watch, supervise
from fleetctl.jobs.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Supervised:
    """A run that has started, and how it is stopped."""

    run: RunFolder
    stop_requested: asyncio.Event
    remark: Callable[[str], None]


async def see_through(
    room: Room, run: RunFolder, dress: Callable[[Watch], Watch], stop: asyncio.Event
) -> Verdict:
    """`carry` the run to its end within its time limit, and write down what energy it took."""
    async with limit.enforced(room, run, stop):
        verdict = await carry(room, run, dress=dress, stop_requested=stop)
    await energy.measure(room.rack, run)
    return verdict


@dataclass(slots=True)
class Foreground:
    """Turns signals into what they mean at this moment.

    Ctrl-C before the start gives up; after it, it stops the run everywhere; once more, it leaves
    that to a later `fleetctl stop`. A closed terminal or a shutdown leaves the run going on.
    """

    supervised: Supervised | None = None
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
        """Supervise one attempt; from here on Ctrl-C stops the run."""
        self.supervised = Supervised(watch.run, watch.stop_requested, watch.on_remark)
        return await supervise(watch)

    async def carry(self, room: Room, run: RunFolder, dress: Callable[[Watch], Watch]) -> Verdict:
        """Supervise with as many attempts as it takes; from here on Ctrl-C stops the run."""
        stop = asyncio.Event()
        self.supervised = Supervised(run, stop, room.remark)
        return await see_through(room, run, dress, stop)

    def _interrupt(self) -> None:
        this = self.supervised
        if this is not None and not this.stop_requested.is_set():
            with suppress(OSError):
                this.run.record("stop-requested", by="Ctrl-C")
            this.stop_requested.set()
        elif self._task is not None:
            if this is not None:
                name = this.run.name
                this.remark(f"{name} is not stopped yet; `fleetctl stop {name}` ends it")
            self._task.cancel()

    def _leave(self) -> None:
        self.left_alone = True
        if self._task is not None:
            self._task.cancel()
