"""The supervisor of one job: `python -m fleetctl.serve.carrier RACKFILE NAME`.

A process of its own that outlives the service which started it. It takes the job from wherever its
run folder says that it is: given phones, going on, or between two attempts. SIGINT stops the
job on all phones; SIGTERM and SIGHUP leave it to the next supervisor.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from fleetctl.errors import ExitCode, FleetError
from fleetctl.jobs import energy, launch, limit, recover, runs
from fleetctl.jobs.checkpoints import NoCheckpoint
from fleetctl.jobs.choose import NotEnoughPhones
from fleetctl.jobs.jobfile import read_job
from fleetctl.jobs.launch import Request, Room
from fleetctl.jobs.rehearsal import NotRehearsed, PlanRefused
from fleetctl.jobs.runs import RunFolder, Supervised
from fleetctl.rack import InputError, RackPaths, load_rack
from fleetctl.remote import Fleet
from fleetctl.serve.board import board_of
from fleetctl.serve.decide import wanted
from fleetctl.serve.enqueue import end_unstarted, wish_of
from fleetctl.serve.queue import Entry, Queue
from fleetctl.state import Drained, Held, State
from trainer.formats import FormatError

BACKOFF_SECONDS = (30.0, 1800.0)
"""Pause before the second try to start a job, and the longest between two."""

HOPELESS = (InputError, FormatError, NoCheckpoint, PlanRefused)
"""Only a person who changes the job can help."""

REHEARSED_TRIES = 5
"""Once so many starts have failed, memory that is too small for the job will not come free."""


def backoff_seconds(tries: int) -> float:
    """How long a job waits after so many starts that failed: twice as long each time."""
    first, longest = BACKOFF_SECONDS
    return 0.0 if tries <= 0 else float(min(first * 2 ** min(tries - 1, 20), longest))


@dataclass(slots=True)
class Carrier:
    """One job from the moment it has phones to its end."""

    queue: Queue
    room: Room
    run: RunFolder
    stop_requested: asyncio.Event = field(default_factory=asyncio.Event)
    starting: asyncio.Task[object] | None = None

    async def carry(self) -> None:
        """Start the job if it has not been, and see it through. The caller supervises the run."""
        entry = self.queue.get(self.run.name)
        if entry is not None and entry.given is None:
            return
        if not self.run.events() and (entry is None or not await self._start(entry)):
            return
        if not self.run.summary().over:
            limit.note_given(self.run)
            async with limit.enforced(self.room, self.run, self.stop_requested):
                await recover.carry(
                    self.room,
                    self.run,
                    stop_requested=self.stop_requested,
                    offered=entry.phones if entry else (),
                    give_back=self._wait_again if entry else None,
                    may_grow=self._may_grow,
                )
            if not self.run.summary().over:
                return
            await energy.measure(self.room.rack, self.run)
        self.queue.remove(self.run.name)

    async def _start(self, entry: Entry) -> bool:
        """Whether the job has begun. If not, it is over, or waits in the queue again."""
        self.starting = asyncio.current_task()
        try:
            request = self._request(entry)
            with ExitStack() as stack:
                await launch.launch(self.room, request, stack, run=self.run)
            return True
        except HOPELESS as problem:
            self._over("failed", str(problem))
        except NotRehearsed as problem:
            if entry.tries + 1 < REHEARSED_TRIES:
                self._again(entry, problem)
            else:
                self._over("failed", str(problem))
        except FleetError as problem:
            self._again(entry, problem)
        except asyncio.CancelledError:
            if not self.stop_requested.is_set():
                raise
            if self.run.events():
                return True  # it may have begun, and ends as whatever is stopped
            self._over("stopped", "stopped by the operator before it ran")
        finally:
            self.starting = None
        return False

    def _request(self, entry: Entry) -> Request:
        job = read_job(self.run.job_file)
        ranks = len(entry.phones) if entry.ranks is None else entry.ranks
        wish = wish_of(entry, entry.phones, ranks, entry.spares)
        resume = entry.resume and runs.find(self.room.paths.runs, entry.resume)
        return Request(job, wish, (), resume or None)

    def _again(self, entry: Entry, problem: FleetError) -> None:
        if self.run.events():
            # It had touched phones: what became of it is written down.
            self.queue.remove(self.run.name)
            return
        # Phones that failed are suspect now, so others are chosen at once; only where that does
        # not help is there something to wait for.
        others = isinstance(problem, NotEnoughPhones | Held | Drained)
        pause = backoff_seconds(entry.tries if others else entry.tries + 1)
        self.room.remark(f"{self.run.name} was not started: {problem}")
        why = " ".join(str(problem).split())
        self.queue.take_back(self.run.name, why[:500], time.time() + pause)

    def _may_grow(self, phones: Collection[str]) -> bool:
        """Free phones are theirs who wait, if they can start with them."""
        entries, now = self.queue.jobs(), time.time()
        board = board_of(self.room.rack, self.room.state.phones(), entries, {}, now)
        waiting = [entry.waiting() for entry in entries if entry.waits]
        return not wanted(board.floor, waiting, board.unusable, phones, now)

    def _wait_again(self, why: str) -> None:
        """It has waited for phones in vain: others may have those that it held, until it is its
        turn again, at its old place."""
        entry = self.queue.get(self.run.name)
        pause = backoff_seconds(entry.tries) if entry else 0.0
        self.room.remark(f"{self.run.name} waits in the queue again: {why}")
        self.queue.take_back(self.run.name, " ".join(why.split())[:500], time.time() + pause)

    def _over(self, state: str, reason: str) -> None:
        """Write down the end of a job that never held a phone."""
        end_unstarted(self.run, state, reason)
        self.queue.remove(self.run.name)

    def interrupt(self) -> None:
        """A person wants its end."""
        if not self.run.stop_requested:
            with suppress(OSError):
                if self.run.events():
                    self.run.record("stop-requested", by="a signal")
        self.stop_requested.set()
        if self.starting is not None:
            self.starting.cancel()


async def carry(rack_file: Path, name: str) -> ExitCode:
    """Be the supervisor of the job, unless it has one."""
    rack = load_rack(rack_file)
    paths = RackPaths(rack.name)
    run = RunFolder(paths.runs / name)
    with ExitStack() as stack:
        state = stack.enter_context(State(paths.state_db))
        queue = stack.enter_context(Queue(paths.queue_db))
        try:
            stack.enter_context(run.supervise())
        except Supervised:
            return ExitCode.DONE
        async with Fleet(rack, paths) as fleet:
            carrier = Carrier(queue, Room(fleet, rack, state, paths, _log), run)
            _on_signals(carrier)
            await carrier.carry()
    return ExitCode.DONE


def _on_signals(carrier: Carrier) -> None:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None  # noqa: S101
    loop.add_signal_handler(signal.SIGINT, carrier.interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)


def _log(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", flush=True)


def main() -> int:
    rack_file, name = sys.argv[1:]
    try:
        return asyncio.run(carry(Path(rack_file), name))
    except asyncio.CancelledError:
        _log("left to the next supervisor")
        return ExitCode.DONE
    except FleetError as problem:
        _log(str(problem))
        return problem.exit_code


if __name__ == "__main__":
    sys.exit(main())
