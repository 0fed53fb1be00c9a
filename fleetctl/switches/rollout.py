"""Several switches side by side, one session each.

Ports of phones are each switch's own affair. Uplinks are not: a bundle at one end only passes
nothing. So switches whose uplinks change do that last, at the same time, and keep it together or
not at all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleetctl.switches.apply import Application
from fleetctl.switches.errors import SwitchError
from fleetctl.switches.job import Job, Report, Result

_POLL_SECONDS = 0.1
_HEAD_START_SECONDS = 0.5
"""By so much a farther switch changes its uplinks earlier: later nothing would reach it."""


@dataclass
class _Group:
    """Switches that wait for each other before each step that concerns them all."""

    neighbours: Mapping[str, frozenset[str]]
    hops: Mapping[str, int]
    """How far from the controller each is."""

    looked: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    joint: dict[str, int] = field(default_factory=dict)
    """Those whose uplinks change, with the number of lines that each takes."""

    arrived: dict[str, set[str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, name: str, lines: int | None) -> None:
        """`name` knows its change; `lines` is None where no uplink changes."""
        with self.lock:
            self.looked.add(name)
            if lines is not None:
                self.joint[name] = lines

    def fail(self, name: str, why: str) -> None:
        with self.lock:
            self.failed.setdefault(name, why)
            self.looked.add(name)

    def wait_for_looks(self, name: str, wait: Callable[[], None]) -> int:
        """Until everybody knows; the lines of the longest change that `name` must wait for."""
        self._until(lambda: self.looked >= set(self.neighbours), wait)
        self._all_is_well(name)
        return max(self.joint.values(), default=0) if name in self.joint else 0

    def together(self, name: str, step: str, wait: Callable[[], None]) -> None:
        """Until all whose uplinks change have come to this step. Raises when one has failed."""
        if name not in self.joint:
            return
        with self.lock:
            self.arrived.setdefault(step, set()).add(name)
        self._until(lambda: self._bad(name) or self.arrived[step] >= set(self.joint), wait)
        self._all_is_well(name)

    def let_farther_ones_begin(self, name: str) -> None:
        if name in self.joint:
            farthest = max(self.hops[other] for other in self.joint)
            time.sleep(_HEAD_START_SECONDS * (farthest - self.hops[name]))

    def _bad(self, name: str) -> bool:
        concerned = set(self.joint) | self.neighbours[name]
        return bool(concerned & set(self.failed))

    def _all_is_well(self, name: str) -> None:
        if name in self.joint and self._bad(name):
            other = next(iter((set(self.joint) | self.neighbours[name]) & set(self.failed)))
            raise SwitchError(
                name, f"its uplinks stay as they were, because {other} failed", f"mend {other}"
            )

    def _until(self, condition: Callable[[], bool], wait: Callable[[], None]) -> None:
        while True:
            with self.lock:
                if condition():
                    return
            wait()
            time.sleep(_POLL_SECONDS)


def roll_out(
    jobs: Sequence[Job], neighbours: Mapping[str, Iterable[str]], dry: bool = False
) -> list[Report | SwitchError]:
    """Bring every switch to its configuration, or with `dry` only tell what would be sent.

    `neighbours` are what stands at the other ends of each switch's bundles: switches, and what is
    none, such as a router. The answers stand in the order of `jobs`. Ctrl-C brings every switch
    back before it goes on.
    """
    names = [job.target.switch for job in jobs]
    group = _Group(
        {name: frozenset(neighbours.get(name, ())) & set(names) for name in names},
        hops_from_the_controller(names, neighbours),
    )
    stop = threading.Event()
    answers: dict[str, Report | SwitchError | BaseException] = {}

    def work(job: Job, done: threading.Event) -> None:
        name = job.target.switch
        try:
            answers[name] = _one(replace(job, stopped=stop.is_set), group, dry)
        except BaseException as problem:
            group.fail(name, str(problem))
            answers[name] = problem
        finally:
            done.set()

    ends = [threading.Event() for _ in jobs]
    for job, done in zip(jobs, ends, strict=True):
        threading.Thread(target=work, args=(job, done)).start()
    if _wait(ends, stop):
        raise KeyboardInterrupt
    found = []
    for job in jobs:
        answer = answers[job.target.switch]
        if not isinstance(answer, Report | SwitchError):
            raise answer
        found.append(answer)
    return found


def hops_from_the_controller(
    names: Sequence[str], neighbours: Mapping[str, Iterable[str]]
) -> dict[str, int]:
    """How many bundles lie between the controller and each switch.

    It is taken to be behind whatever is no switch, or else at the first switch of the rack file.
    """
    roots = [name for name in names if set(neighbours.get(name, ())) - set(names)]
    hops = dict.fromkeys(roots or names[:1], 0)
    todo = list(hops)
    for name in todo:
        for other in neighbours.get(name, ()):
            if other in names and other not in hops:
                hops[other] = hops[name] + 1
                todo.append(other)
    return {name: hops.get(name, 0) for name in names}


def _wait(ends: Sequence[threading.Event], stop: threading.Event) -> bool:
    """Wait for all; an interrupt makes them go back, and is told at the end.

    Not by Thread.join: interrupted, Python 3.12 takes the thread for ended, and leaves without it.
    """
    interrupted = False
    for done in ends:
        while not done.is_set():
            try:
                done.wait(0.2)
            except KeyboardInterrupt:
                interrupted = True
                stop.set()
    return interrupted


def _one(job: Job, group: _Group, dry: bool) -> Report:
    began = time.monotonic()
    application = Application(job)

    def report(result: Result) -> Report:
        seconds = time.monotonic() - began
        notes = tuple(application.notes)
        return Report(application.name, result, application.change, notes, seconds)

    with application.unwinding():
        application.look()
        if dry:
            return report("would change" if application.change else "unchanged")
        lines = len(application.change.commands) if application.change.changes_uplinks else None
        application.count_phones()
        group.look(application.name, lines)
        longest = group.wait_for_looks(application.name, application.check_stopped)
        application.arm(longest)
        application.push()
        group.together(application.name, "uplinks", application.in_time)
        group.let_farther_ones_begin(application.name)
        application.push_uplinks(together=len(group.joint) > 1)
        group.together(application.name, "verify", application.in_time)
        application.verify()
        group.together(application.name, "keep", application.in_time)
        application.confirm()
        application.save()
        return report("changed" if application.change else "unchanged")
