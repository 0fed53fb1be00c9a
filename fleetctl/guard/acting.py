"""Does what was decided: commands of hubs, jobs, drains, calls. Each answers with an outcome."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fleetctl.guard import phone_side
from fleetctl.guard.actions import (
    Action,
    Blow,
    Call,
    Drain,
    Facts,
    Kill,
    Outcome,
    Stop,
    Switch,
    Undrain,
)
from fleetctl.power import actuator
from fleetctl.power.actuator import Actuator
from fleetctl.rack import Outlet, Rack, RackPaths
from fleetctl.rack.nodesets import fold
from fleetctl.remote import Fleet
from fleetctl.state import State, StateError

AT_ONCE = 16
"""Commands that give power or switch a fan at the same time; one that cuts waits for none."""

STOP_LIMIT_SECONDS = 150.0
CALL_LIMIT_SECONDS = 60.0
FLEETCTL = Path(sys.executable).with_name("fleetctl")


class Hands:
    """`tell` hears outcomes, `say` what a person who looks on should see."""

    def __init__(
        self,
        rack: Rack,
        rack_file: Path,
        paths: RackPaths,
        fleet: Fleet,
        tell: Callable[[Outcome], None],
        say: Callable[[str], None],
    ) -> None:
        self._rack = rack
        self._fleet = fleet
        self._actuator = Actuator(rack_file)
        self._tell = tell
        self._say = say
        self._bound = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # The state may be busy for seconds. It has a thread of its own, so that nothing waits.
        self._thread = ThreadPoolExecutor(1, "state")
        self._state: State | None = None
        self._path = paths.state_db

    def begin(self, action: Action) -> None:
        """Start to do it; what was under way for the same thing ends."""
        match action:
            case Drain() | Undrain():
                self._start(f"{action.kind}:{action.phone}", self._drain(action))
            case Kill():
                self._start(action.key, self._kill(action))
            case Stop():
                self._start(action.key, self._stop(action))
            case Switch():
                outlet = self._rack.outlets[action.outlet]
                self._start(action.key, self._switch(action, outlet))
            case Blow():
                self._start(action.key, self._switch(action, self._rack.fans[action.fan]))
            case Call():
                self._start(action.key, self._call(action))

    async def facts(self) -> dict[str, Facts]:
        """What the state knows now. Raises StateError."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._read)

    async def close(self) -> None:
        """Let go of everything. Hubs' commands that run are ended; jobs stop by themselves."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _start(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        if (old := self._tasks.get(key)) is not None:
            old.cancel()
        task = asyncio.create_task(work)
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._ended(key, done))

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            # A bug in one action must not end the others.
            self._say(f"{key}: {type(error).__name__}: {error}")
            self._tell(Outcome(key, False, str(error)))

    # --- the state ------------------------------------------------------------------------------

    def _open(self) -> State:
        if self._state is None:
            self._state = State(self._path)
        return self._state

    def _close(self) -> None:
        if self._state is not None:
            self._state.close()

    def _read(self) -> dict[str, Facts]:
        return {
            name: Facts(each.run, frozenset(drain.who for drain in each.drains))
            for name, each in self._open().phones().items()
        }

    async def _drain(self, action: Drain | Undrain) -> None:
        def write() -> None:
            if isinstance(action, Drain):
                self._open().drain([action.phone], who=action.who, why=action.why, origin="check")
            else:
                self._open().undrain([action.phone], check=action.who)

        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, write)
        except StateError as problem:
            self._say(f"{action.phone} cannot be {action.kind}ed: {problem}")

    # --- phones, jobs, hubs, persons ------------------------------------------------------------

    async def _kill(self, action: Kill) -> None:
        result = await self._fleet.run_on(
            action.phone, phone_side.KILL, timeout_seconds=phone_side.KILL_LIMIT_SECONDS
        )
        self._tell(phone_side.outcome_of(action.key, result, action.phone))

    async def _stop(self, action: Stop) -> None:
        """By a process of its own: it takes its time, and has its own opinion of the state."""
        ran = await actuator.run(
            [str(FLEETCTL), "stop", action.run], STOP_LIMIT_SECONDS, self._actuator.environment()
        )
        self._tell(Outcome(action.key, ran.ok, ran.sentence))

    async def _switch(self, action: Switch | Blow, outlet: Outlet) -> None:
        cuts = isinstance(action, Switch) and not action.on
        async with nullcontext() if cuts else self._bound:
            ran = await self._actuator.switch(outlet, action.on)
        self._tell(Outcome(action.key, ran.ok, ran.sentence))

    async def _call(self, action: Call) -> None:
        if not self._rack.guard.call:
            return  # the log has it, and a command that the rack file gives later is run for it
        words = {"{message}": f"{action.what}: {action.message}", "{phones}": fold(action.phones)}
        argv = [_filled(word, words) for word in self._rack.guard.call]
        ran = await actuator.run(argv, CALL_LIMIT_SECONDS, self._actuator.environment())
        said = ran.sentence if ran.ok else f"NOBODY WAS CALLED: {argv[0]}: {ran.sentence}"
        self._tell(Outcome(action.key, ran.ok, said))


def _filled(word: str, values: dict[str, str]) -> str:
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word
