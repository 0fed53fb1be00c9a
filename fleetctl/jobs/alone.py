"""Tell a phone that is silent from a controller that has lost its own network.

While no phone of the rack answers at all, nobody is to blame, however long that takes: the run goes
on without us, or has ended, and what became of it is asked once somebody answers again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fleetctl.jobs import probes
from fleetctl.jobs.runs import RunFolder
from fleetctl.remote import Fleet

ASK_SECONDS = 1.0
"""Between two tries to reach anybody."""

RETURN_SECONDS = 20.0
"""Once one phone answers again, the others have so long to do so too: switches and Wi-Fi do not
bring all of them back at the same moment."""


@dataclass(slots=True)
class Network:
    """This controller's way to the phones of a run, and to others of the rack."""

    fleet: Fleet
    run: RunFolder
    phones: tuple[str, ...]
    """All that are asked; a single one cannot be told from the network."""
    remark: Callable[[str], None] = lambda _: None
    back: float = float("-inf")
    """When it came back after it had been away, by the monotonic clock."""
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def returning(self) -> bool:
        """Whether it is so newly back that silence proves nothing yet."""
        return time.monotonic() - self.back < RETURN_SECONDS

    async def was_lost(self) -> bool:
        """Whether silence is this controller's own: then this waits until somebody answers. False
        at once while anybody does."""
        began = time.monotonic()
        async with self._asking:  # one asks for all
            if self.back > began or self.returning:
                return True
            if len(self.phones) < 2 or await probes.anybody_answers(self.fleet, self.phones):
                return False
            self.run.record("alone")
            self.remark(
                "no phone answers: this controller has lost its network, or all have lost theirs; "
                "nobody is blamed, and the run is looked at as soon as one answers"
            )
            while not await probes.anybody_answers(self.fleet, self.phones):
                await asyncio.sleep(ASK_SECONDS)
            self.back = time.monotonic()
            self.run.record("back", seconds=round(self.back - began, 1))
            self.remark(f"phones answer again after {self.back - began:.0f} s")
            return True
