"""Memory and log on the disk, written by a thread of their own: a disk that hangs or is full holds
up nothing for long."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from fleetctl.guard.actions import Action, Inputs
from fleetctl.guard.journal import Journal
from fleetctl.guard.kept import Kept
from fleetctl.guard.memory import Memory

SAVE_SECONDS = 15.0
MOST_TURNS = 500
"""So many decisions wait for a disk that hangs; of what is older the log knows nothing."""

_DISK = ThreadPoolExecutor(1, "disk")
"""One for all guards of this process, so that what is older is never written over what is newer."""

type _Turn = tuple[float, Inputs, Sequence[Action]]


@dataclass
class Record:
    """`told` hears what does not work (what, problem), and that it works again (what, None)."""

    kept: Kept
    journal: Journal
    told: Callable[[str, str | None], None]
    wait_seconds: float
    _turns: list[_Turn] = field(default_factory=list)
    _saved: float = 0.0
    _owed: bool = False
    _work: asyncio.Future[str | None] | None = None

    async def begin(self, now: float, memory: Memory) -> None:
        """A guard starts, with this memory."""
        whole = copy.deepcopy(memory)
        await self._have_done(lambda: self.journal.begin(now, whole))

    async def keep(
        self, now: float, inputs: Inputs, actions: Sequence[Action], memory: Memory
    ) -> None:
        """One decision. When this ends it is on the disk, unless that did not answer in time."""
        self._turns = [*self._turns[1 - MOST_TURNS :], (now, inputs, actions)]
        self._owed |= bool(actions or inputs.outcomes) or now - self._saved >= SAVE_SECONDS
        if self._is_free():
            await self._have_done(self._writing(now, memory))

    async def end(self, memory: Memory) -> None:
        """The last words."""
        self._owed = True
        if self._work is not None:
            await asyncio.wait([self._work], timeout=self.wait_seconds)
        if self._is_free():
            write = self._writing(memory.now, memory)

            def finish() -> str | None:
                problem = write()
                self.journal.close()
                return problem

            await self._have_done(finish)

    def _writing(self, now: float, memory: Memory) -> Callable[[], str | None]:
        """What the thread is to do; it touches nothing that changes meanwhile."""
        turns, self._turns = self._turns, []
        text = memory.to_json() if self._owed else None
        if text is not None:
            self._owed, self._saved = False, now
        whole = copy.deepcopy(memory) if self.journal.begins(now) else None

        def write() -> str | None:
            for turn in turns:
                self.journal.write(*turn, whole)
            try:
                if text is not None:
                    self.kept.save(text)
            except OSError as problem:
                return f"{self.kept.folder}: {problem.strerror}"
            return None

        return write

    async def _have_done(self, work: Callable[[], str | None]) -> None:
        self._work = asyncio.get_running_loop().run_in_executor(_DISK, work)
        await asyncio.wait([self._work], timeout=self.wait_seconds)
        self._is_free()

    def _is_free(self) -> bool:
        """Whether the disk has done what it was given; says what came of it."""
        if self._work is None:
            return True
        if not self._work.done():
            self.told("disk", f"the disk does not answer ({self.kept.folder})")
            return False
        problem, self._work = self._work.result(), None
        self.told("disk", None)
        self.told("memory", problem)
        self.told("log", self.journal.problem)
        self._owed |= problem is not None
        return True
