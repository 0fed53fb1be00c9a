"""The service's loop: turns, the exporter, and looks at phones that jobs wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

from fleetctl.checks import phone as preflight
from fleetctl.checks.health import keep
from fleetctl.errors import FleetError
from fleetctl.remote import Fleet
from fleetctl.serve import exporter, last_checks
from fleetctl.serve.beside import Beside, Watch
from fleetctl.serve.exporter import Address, Seen
from fleetctl.serve.service import Service

TURN_SECONDS = 1.0

LOOK_SECONDS = 30.0
"""Between two looks at phones that are suspect or lost, while jobs wait."""


@dataclass(slots=True)
class Loop:
    """A service that goes on until `stop` is set."""

    service: Service
    address: Address | None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    _seen: Seen | None = None
    _turns: int = 0
    _looking: asyncio.Task[None] | None = None
    _looked: float = float("-inf")
    _trouble: str = ""
    _watch: Watch | None = None
    _unseen: str | None = None

    async def run(self) -> None:
        """Serve. Raises FleetError when the exporter cannot listen."""
        with ExitStack() as stack:
            if self.address is not None:
                server = exporter.listen(self.address, lambda: self._seen)
                stack.callback(server.server_close)
                stack.callback(server.shutdown)
                self.service.say(f"metrics on http://{self.address}/metrics")
            while not self.stop.is_set():
                self._turn()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.stop.wait(), TURN_SECONDS)
            if self._looking is not None:
                self._looking.cancel()
                await asyncio.gather(self._looking, return_exceptions=True)

    def _turn(self) -> None:
        service = self.service
        if not service.paths.queue_db.exists():
            raise FleetError(f"{service.paths.dir} is gone: there is nothing left to serve")
        try:
            turn = service.turn()
        except (FleetError, OSError) as problem:
            # A full disk, a database that somebody moved: it may pass, and the jobs go on.
            if str(problem) != self._trouble:
                self._trouble = str(problem)
                service.say(f"nothing can be started: {problem}")
            if self._seen is not None:  # guard is none of this trouble
                self._seen = replace(self._seen, beside=self._look_beside())
            return
        if self._trouble:
            self._trouble = ""
            service.say("jobs can be started again")
        self._turns += 1
        if self._turns == 1:
            service.say(exporter.started(turn))
        checked = last_checks.read(service.paths.last_checks)
        self._seen = Seen(turn, checked, self._turns, self._look_beside())
        if turn.decision.waits:
            self._look(turn.board.curable)

    def _look_beside(self) -> Beside:
        if self._watch is None:
            self._watch = Watch(self.service.paths)
        beside = self._watch.look()
        if beside.trouble != self._unseen:
            self._unseen = beside.trouble
            why = f"cannot be looked at: {beside.trouble}" if beside.trouble else "are seen again"
            self.service.say(f"runs {why}")
        return beside

    def _look(self, phones: Sequence[str]) -> None:
        """Have phones that are out of order looked at: a good preflight makes them ready."""
        if self._looking is not None and self._looking.done():
            if not self._looking.cancelled() and (error := self._looking.exception()):
                self.service.say(f"phones could not be looked at: {error}")
            self._looking = None
        due = time.monotonic() - self._looked >= LOOK_SECONDS
        if phones and due and self._looking is None:
            self._looked = time.monotonic()
            self._looking = asyncio.create_task(self._preflight(phones))

    async def _preflight(self, phones: Sequence[str]) -> None:
        service = self.service
        async with Fleet(service.rack, service.paths) as fleet:
            facts = await preflight.gather(
                fleet, service.rack, phones, wanted_revocations=service.state.wanted_revocations()
            )
        outcomes = preflight.judge(preflight.with_common_versions(facts), service.rack)
        keep(service.state, facts, outcomes)
        self._looked = time.monotonic()
