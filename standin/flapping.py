"""The daemon's service that plays the fault `flap`: a link that goes down for a moment, again and
again."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from standin.commands import CommandError
from standin.daemon.desk import Desk
from standin.faults import FaultFile
from standin.rig import Rig

DOWN_SECONDS = 3.0
POLL_SECONDS = 0.5
IDLE_POLL_SECONDS = 5.0


def is_down(period_seconds: float, elapsed_seconds: float) -> bool:
    """Whether a link that flaps is down: at the end of each period, for at most half of it."""
    down = min(DOWN_SECONDS, period_seconds / 2)
    return elapsed_seconds % period_seconds >= period_seconds - down


async def run(desk: Desk) -> None:
    """Play it until cancelled; then all links are up again that this has taken down."""
    player = Player(desk.rig)
    woken = asyncio.Event()
    desk.on_change.append(woken.set)
    try:
        while True:
            woken.clear()
            flaps = await asyncio.to_thread(player.play, time.monotonic())
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), POLL_SECONDS if flaps else IDLE_POLL_SECONDS)
    finally:
        desk.on_change.remove(woken.set)
        player.end()


class Player:
    """Knows since when each link flaps, and which of them it has taken down."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._file = FaultFile(rig.folders.faults)
        self._since: dict[str, float] = {}
        self._down: set[str] = set()

    def play(self, now: float) -> bool:
        """Make every link what it is at `now`; whether any flaps at all."""
        self._file.changed()
        flapping = {
            phone: float(faults["flap"] or 0)
            for phone, faults in self._file.faults.items()
            if "flap" in faults and "unplug" not in faults and "kill" not in faults
        }
        self._since = {phone: self._since.get(phone, now) for phone in flapping}
        wanted = {
            phone for phone, period in flapping.items() if is_down(period, now - self._since[phone])
        }
        for phone in wanted - self._down:
            self._set(phone, plugged=False)
        self._restore(self._down - wanted)
        self._down = wanted
        return bool(flapping)

    def end(self) -> None:
        self._restore(self._down)

    def _restore(self, phones: set[str]) -> None:
        for phone in phones:
            # One that a person has unplugged meanwhile stays so.
            if "unplug" not in self._file.faults.get(phone, {}):
                self._set(phone, plugged=True)

    def _set(self, phone: str, plugged: bool) -> None:
        # The port of a phone that has just died, or starts, is not there.
        with suppress(CommandError):
            (self._rig.replug if plugged else self._rig.pull)(phone)
