"""The process: asks phones itself, by kept connections, remembers, and has done what is decided."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fleetctl.errors import FleetError
from fleetctl.guard import words
from fleetctl.guard.acting import Hands
from fleetctl.guard.actions import Action, Facts, Inputs, Outcome, Sample
from fleetctl.guard.core import decide, recall
from fleetctl.guard.dry import Pretence
from fleetctl.guard.journal import Journal
from fleetctl.guard.kept import Kept
from fleetctl.guard.layout import Layout
from fleetctl.guard.memory import Memory
from fleetctl.guard.record import Record
from fleetctl.guard.watchdog import alive
from fleetctl.power import battery
from fleetctl.power.battery import Battery
from fleetctl.rack import InputError, Rack, RackPaths, load_rack
from fleetctl.rack.loader import lock_file_of
from fleetctl.remote import Fleet
from fleetctl.state import StateError

TICK_SECONDS = 0.5
GATHER_SECONDS = 0.1
"""So long what comes in is gathered, since many phones answer within a second."""

LOOK_SECONDS = 0.7
"""Between two looks at a phone whose power is being switched."""

NEAR_SECONDS = 3.0
"""Between two looks at a phone that is hot."""

FACTS_SECONDS = 0.5
DISK_SECONDS = 2.0
"""So long what is decided waits to be on the disk first."""

RACK_SECONDS = 5.0
STATE_TROUBLE_SECONDS = 60.0

type Ending = Literal["stopped", "interrupted", "changed"]


class Clock:
    """Seconds since the epoch that never jump, whatever is done to this machine's clock."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset


@dataclass
class Service:
    """One guard of one rack. `dry`: what is decided is only said, and nothing is written.

    `before`: what the guard knew that ran here until now; None: what the disk has.
    """

    rack: Rack
    rack_file: Path
    paths: RackPaths
    say: Callable[[str], None]
    dry: bool = False
    before: Memory | None = None
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.kept = Kept(self.paths)
        self.layout = Layout.of_rack(self.rack)
        journal = Journal(self.kept.log, self.rack.guard.warn_celsius)
        self.record = Record(self.kept, journal, self._told, DISK_SECONDS)
        self.memory = Memory(self.clock())
        self._samples: dict[str, Sample] = {}
        self._problems: dict[str, str] = {}
        self._outcomes: list[Outcome] = []
        self._facts: dict[str, Facts] = {}
        self._clears: dict[str, str] = {}
        self._wake = asyncio.Event()
        self._ending: asyncio.Future[Ending] | None = None
        self._pretence = Pretence(self.layout) if self.dry else None
        self._trouble: dict[str, str] = {}

    async def run(self) -> Ending:
        """Watch until TERM or Ctrl-C, or until the rack file has changed."""
        loop = asyncio.get_running_loop()
        self._ending = loop.create_future()
        loop.add_signal_handler(signal.SIGTERM, self._end, "stopped")
        loop.add_signal_handler(signal.SIGINT, self._end, "interrupted")
        async with Fleet(self.rack, self.paths) as fleet:
            hands = Hands(self.rack, self.rack_file, self.paths, fleet, self._tell, self.say)
            self.memory = await self._remember(hands)
            if not self.dry:
                await self.record.begin(self.memory.now, self.memory)
            tasks = [asyncio.create_task(work) for work in self._work(fleet, hands)]
            try:
                waiting: list[asyncio.Future[Any]] = [self._ending, *tasks]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()  # a bug: end loudly, so that systemd starts it anew
                return self._ending.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await hands.close()
                if not self.dry:
                    await self.record.end(self.memory)

    def _work(self, fleet: Fleet, hands: Hands) -> Iterator[Coroutine[Any, Any, None]]:
        yield self._decide(hands)
        yield self._read_state(hands)
        yield self._watch_rack_file()
        if not self.dry:
            yield self._read_clears()
        for name in self.layout.phones:
            yield self._ask(fleet, name)

    def _end(self, ending: Ending) -> None:
        if self._ending is not None and not self._ending.done():
            self._ending.set_result(ending)

    # --- what comes in --------------------------------------------------------------------------

    async def _remember(self, hands: Hands) -> Memory:
        """What was known at the last end. Of latches drains tell too, should that be lost."""
        now = self.clock()
        memory = self._kept(now) or Memory(now)
        with suppress(StateError):
            self._facts = await hands.facts()
        if self._pretence is not None:
            for name, facts in self._facts.items():
                self._pretence.adopt(name, facts)
        recall(self.layout, memory, now, self._facts)
        return memory

    def _kept(self, now: float) -> Memory | None:
        if self.before is not None:
            return Memory.from_document(self.before.document(), now)
        try:
            return self.kept.load(now)
        except InputError as problem:
            self.say(f"{problem}; {self._put_aside()}")
            return None

    def _put_aside(self) -> str:
        if self.dry:
            return "it is left where it is"
        try:
            return f"put aside as {self.kept.put_aside()}"
        except OSError as problem:
            return f"it cannot be put aside: {problem.strerror}"

    async def _ask(self, fleet: Fleet, name: str) -> None:
        """One phone again and again; the first time anywhere in the period, so that not all
        are asked at once."""
        await asyncio.sleep(random.random() * min(2.0, self.rack.guard.poll_seconds))  # noqa: S311
        while True:
            began = self.clock()
            try:
                found = await battery.look_at(fleet, name)
            except Exception as bug:
                # One phone must not end the watch over all others.
                found = Battery(problem=f"{type(bug).__name__}: {bug}")
            if found.celsius is not None and found.plugged is not None:
                self._samples[name] = Sample(
                    began - found.age_seconds,
                    found.celsius,
                    found.plugged,
                    found.percent,
                    found.charging,
                    found.health,
                )
            else:
                self._problems[name] = found.problem or "unknown"
            self._wake.set()
            await self._pause(name, began)

    async def _pause(self, name: str, began: float) -> None:
        """Until it is to be asked next, which may become sooner meanwhile."""
        while (left := began + self._period(name) - self.clock()) > 0:
            await asyncio.sleep(min(left, TICK_SECONDS))

    def _period(self, name: str) -> float:
        feeder = self.layout.feeder.get(name)
        if feeder is not None and f"switch:{feeder}" in self.memory.orders:
            order = self.memory.orders[f"switch:{feeder}"]
            return LOOK_SECONDS if order.sent is None or order.tries < 6 else NEAR_SECONDS
        phone = self.memory.phones.get(name)
        is_near = phone is not None and phone.level > 1
        return min(NEAR_SECONDS if is_near else 60.0, self.rack.guard.poll_seconds)

    async def _read_state(self, hands: Hands) -> None:
        failing_since: float | None = None
        while True:
            try:
                self._facts = await hands.facts()
                failing_since = None
                self._told("state", None)
            except FleetError as problem:
                failing_since = failing_since or self.clock()
                if self.clock() - failing_since > STATE_TROUBLE_SECONDS:
                    self._told("state", str(problem))
            await asyncio.sleep(FACTS_SECONDS)

    async def _read_clears(self) -> None:
        """What persons have left. The disk may hang: no decision waits for it."""
        while True:
            try:
                self._clears |= await asyncio.to_thread(self.kept.clears)
                self._told("clears", None)
            except OSError as problem:
                self._told("clears", f"{self.kept.folder}: {problem.strerror}")
            await asyncio.sleep(FACTS_SECONDS)

    async def _watch_rack_file(self) -> None:
        """A rack file that is in order and has changed is taken up; one with mistakes is not."""
        before = await asyncio.to_thread(self._stamp)
        while True:
            await asyncio.sleep(RACK_SECONDS)
            if (now := await asyncio.to_thread(self._stamp)) in ([], before):
                continue
            before = now
            try:
                await asyncio.to_thread(load_rack, self.rack_file)
            except (FleetError, OSError) as problem:
                self.say(f"the rack file has mistakes, the old one stays: {problem}")
            else:
                self._end("changed")

    def _stamp(self) -> list[float]:
        """Empty while the files cannot be looked at, such as one that is being replaced."""
        try:
            lock = lock_file_of(self.rack_file, self.paths)
            files = (self.rack_file, lock, self.paths.known_hosts)
            return [file.stat().st_mtime if file.exists() else 0.0 for file in files]
        except OSError:
            return []

    def _tell(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._wake.set()

    # --- what goes out --------------------------------------------------------------------------

    async def _decide(self, hands: Hands) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), TICK_SECONDS)
            await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()
            now, inputs = self.clock(), self._collect()
            actions = decide(self.layout, self.memory, now, inputs)
            # Kept before it is done: whoever comes after knows what may have been begun.
            if not self.dry:
                await self.record.keep(now, inputs, actions, self.memory)
            for action in actions:
                self._show(action)
                if self._pretence is not None:
                    self._pretence.begin(action, now)
                else:
                    hands.begin(action)
            for outcome in inputs.outcomes:
                if not outcome.ok:
                    self.say(f"{outcome.key}: {outcome.said}")
            alive()

    def _collect(self) -> Inputs:
        inputs = Inputs(
            samples=self._samples,
            facts=self._facts,
            outcomes=self._outcomes,
            problems=self._problems,
            clears=self._clears,
        )
        self._samples, self._problems, self._outcomes, self._clears = {}, {}, [], {}
        if self._pretence is not None:
            return self._pretence.over(inputs, self.clock())
        return inputs

    def _show(self, action: Action) -> None:
        self.say(words.sentence(action))

    def _told(self, what: str, problem: str | None) -> None:
        """Say once what does not work, and once that it works again."""
        if self._trouble.get(what) != problem:
            if problem is None:
                if self._trouble.pop(what, None):
                    self.say(f"{what}: works again")
            else:
                self._trouble[what] = problem
                self.say(f"{what}: {problem}; guard goes on without it")
