"""What `fleetctl serve` does all the time: see who waits, start jobs, keep each one supervised.

Everything that counts is in the queue's database, the state, and the run folders. A service that
ends leaves its supervisors running, and the next one finds all as it was.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleetctl.errors import FleetError
from fleetctl.jobs import limit, retention
from fleetctl.jobs.holding import release_forgotten
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import Rack, RackPaths, load_rack
from fleetctl.serve.board import Board, board_of
from fleetctl.serve.decide import Decision, decide
from fleetctl.serve.queue import Entry, Queue, names_of
from fleetctl.state import PhoneFacts, State

ADOPT_SECONDS = 10.0
"""Between two looks for runs of a terminal that has gone."""

PROMISE_SECONDS = 60.0
"""Between two notes of what is promised to whom."""

PRUNE_SECONDS = 3600.0
"""Between two looks for runs that need not stay."""

AGAIN_SECONDS = (1.0, 60.0)
"""Pause before a supervisor that ended early is started again: the first, and the longest."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One look at everything, and what came of it; what the exporter tells."""

    time: float
    rack: Rack
    facts: Mapping[str, PhoneFacts]
    board: Board
    entries: tuple[Entry, ...]
    decision: Decision
    decision_seconds: float


@dataclass(slots=True)
class _Child:
    """A supervisor that this process has started."""

    process: subprocess.Popen[bytes]
    again_seconds: float = AGAIN_SECONDS[0]
    not_before: float = 0.0


@dataclass(slots=True)
class Service:
    """The service of one rack. `say` gets a line for each thing that happens."""

    rack_file: Path
    paths: RackPaths
    state: State
    queue: Queue
    say: Callable[[str], None]
    supervisor: tuple[str, ...] = (sys.executable, "-m", "fleetctl.serve.carrier")
    """The program that carries a job; it gets the rack file and the job's name."""
    rack: Rack = field(init=False)
    _stamp: tuple[float, ...] = ()
    _children: dict[str, _Child] = field(default_factory=dict)
    _over: set[str] = field(default_factory=set)
    _unattended: dict[str, float | None] = field(default_factory=dict)
    """Runs that are not of the queue and not over -> when their time limit ends them."""
    _looked: float = 0.0
    _pruned: float = 0.0

    def __post_init__(self) -> None:
        self.rack = load_rack(self.rack_file)
        self._stamp = self._file_times()

    def turn(self, now: float | None = None) -> Turn:
        """One round. Raises FleetError when the databases cannot be used."""
        moment = time.time() if now is None else now
        self._read_rack()
        self._reap(moment)
        entries = self._keep_supervised(moment)
        limits = {run: end for run, end in self._unattended.items() if end is not None}
        began, facts = time.perf_counter(), self.state.phones()
        board = board_of(self.rack, facts, entries, limits, moment)
        waiting = [entry.waiting() for entry in entries if entry.waits]
        decision = decide(board.floor, waiting, board.running, board.unusable, moment)
        took = time.perf_counter() - began
        self._note_promise(decision, entries, moment)
        for start in decision.starts:
            if self.queue.give(start.name, start.phones, moment, spares=start.spares):
                beside = f" and {len(start.spares)} spare" if start.spares else ""
                self.say(f"{start.name} starts on {len(start.phones)} phones{beside}")
                self._start_supervisor(start.name, moment)
        return Turn(moment, self.rack, facts, board, tuple(entries), decision, took)

    def _note_promise(self, decision: Decision, entries: Iterable[Entry], now: float) -> None:
        """It outlives this process; written down now and then only."""
        promise = decision.promise
        if promise is None or promise.held:
            return
        known = next(entry for entry in entries if entry.name == promise.name)
        if now - known.promised >= PROMISE_SECONDS:
            self.queue.promise(promise.name, now)

    def _keep_supervised(self, now: float) -> list[Entry]:
        """Every job that has phones has a supervisor; what is over leaves the queue. Returns what
        is left in it: to read a long queue costs most of a turn."""
        entries = {entry.name: entry for entry in self.queue.jobs()}
        over = set()
        for name, entry in entries.items():
            if entry.given is None:
                continue
            run = RunFolder(self.paths.runs / name)
            if not run.path.exists():
                self.queue.remove(name)
                over.add(name)
                self.say(f"{name} leaves the queue: somebody removed its folder")
            elif run.supervised:
                continue
            elif run.events() and run.summary().over:
                self.queue.remove(name)
                over.add(name)
                self._children.pop(name, None)
                self.say(f"{name} is over: {run.summary().state}")
            else:
                self._start_supervisor(name, now)
        if now - self._looked >= ADOPT_SECONDS:
            self._looked = now
            self._adopt(entries, now)
        if now - self._pruned >= PRUNE_SECONDS:
            self._pruned = now
            self._prune(entries.values(), now)
        return [entry for name, entry in entries.items() if name not in over]

    def _prune(self, entries: Iterable[Entry], now: float) -> None:
        gone = retention.prune_controller(self.paths.runs, names_of(entries), now)
        if gone:
            self._over -= set(gone)
            self.say(f"{len(gone)} runs that ended long ago were removed, {gone[0]} among them")

    def _adopt(self, entries: Mapping[str, Entry], now: float) -> None:
        """Runs that a terminal has left behind, and phones that nobody holds any more."""
        self._unattended.clear()
        release_forgotten(self.state, self.paths.runs)
        for path in self.paths.runs.iterdir():
            # What is over stays so, and is not read again.
            if path.name in self._over or path.name in entries:
                continue
            run = RunFolder(path)
            if not run.events():
                continue
            if run.summary().over:
                self._over.add(run.name)
                continue
            self._unattended[run.name] = limit.ends_at(run)
            if not run.supervised:
                self.say(f"nobody supervises {run.name}: taken over")
                self._start_supervisor(run.name, now)

    def _start_supervisor(self, name: str, now: float) -> None:
        """A process of its own, which neither the end of this one nor its signals reach."""
        known = self._children.get(name)
        if known is not None and (known.process.poll() is None or now < known.not_before):
            return
        folder = self.paths.runs / name
        with (folder / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                [*self.supervisor, str(self.rack_file), name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.paths.dir,
                start_new_session=True,
            )
        pause = AGAIN_SECONDS[0] if known is None else known.again_seconds
        self._children[name] = _Child(process, again_seconds=pause)

    def _reap(self, now: float) -> None:
        for name, child in list(self._children.items()):
            if child.process.poll() is None or child.not_before:
                continue
            if child.process.returncode == 0:
                del self._children[name]
                continue
            child.not_before = now + child.again_seconds
            child.again_seconds = min(2 * child.again_seconds, AGAIN_SECONDS[1])
            self.say(
                f"the supervisor of {name} ended with {child.process.returncode}; see "
                f"{self.paths.runs / name / 'supervisor.log'}"
            )

    def _read_rack(self) -> None:
        """Take over a rack file that has changed; one with a mistake changes nothing."""
        stamp = self._file_times()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.rack = load_rack(self.rack_file)
            self.say("the rack file has changed and was read again")
        except FleetError as problem:
            self.say(f"the rack file has changed, but cannot be read; the old one holds: {problem}")

    def _file_times(self) -> tuple[float, ...]:
        lock = self.rack_file.with_name(f"{self.rack_file.stem}.lock.yml")
        files = (self.rack_file, lock, self.paths.lock_file, self.paths.known_hosts)
        return tuple(file.stat().st_mtime if file.exists() else 0.0 for file in files)
