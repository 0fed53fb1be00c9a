"""Who of the queue starts now, on which phones, and why the others wait. Pure.

The rule, in words that a person can be told:

1. Larger priority first, then who came first. A job's priority grows by one for each hour that it
   waits, so nothing waits behind newcomers for ever.
2. The first job that must wait for phones is promised a time: when enough phones will be free by
   the time limits of the jobs that have them. Phones that it needs then are kept for it.
3. Those behind it start at once where that cannot break the promise: on phones that are not kept,
   or with a time limit that ends before the promised time. Where a job without a time limit is in
   the way, no time can be promised, and all free phones that the first job can use are kept.
4. A job that cannot start at all for now (too few phones that serve, or it waits to be tried
   again) holds up nobody, but for one that would be first: what was kept for it stays kept for some
   minutes, since phones come and go; and one that is an hour old keeps phones for the last minutes
   before it is tried again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from fleetctl.rack.placement import Floor

AGEING_SECONDS = 3600.0
"""A job gains one step of priority each time it has waited for so long."""

HOLD_SECONDS = 600.0
"""How long phones are kept for a job that cannot start just now."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job in the queue. Times are seconds since the epoch."""

    name: str
    number: int
    """Counts arrivals."""
    arrived: float
    priority: int = 0
    least: int = 1
    """Phones without which it does not start."""
    most: int | None = None
    """Phones that it can use; None: all there are."""
    spares: int = 0
    """Phones to set aside beside those, where there are any."""
    among: tuple[str, ...] = ()
    """It wants these; empty: any."""
    limit_seconds: float | None = None
    not_before: float = 0.0
    """After a start that failed it is tried again, later and later."""
    trouble: str | None = None
    """What the last try ended with."""
    promised: float = 0.0
    """When it last was the first, with phones enough that serve."""

    def rank(self, now: float) -> tuple[int, int]:
        """Its place in the order: smaller starts earlier."""
        waited = max(now - self.arrived, 0.0)
        return (-(self.priority + int(waited // AGEING_SECONDS)), self.number)


@dataclass(frozen=True, slots=True)
class Running:
    """A job that has phones; `ends` is when its time limit will have passed, None: no limit."""

    name: str
    phones: tuple[str, ...]
    ends: float | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """A job that starts now. Phones in ring order."""

    name: str
    phones: tuple[str, ...]
    spares: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Promise:
    """What is kept for the first job that waits: `at` is None where no time can be said."""

    name: str
    phones: tuple[str, ...]
    at: float | None
    held: bool = False
    """Whether that is only for some minutes, since it could not start now."""


@dataclass(frozen=True, slots=True)
class Decision:
    starts: tuple[Start, ...]
    waits: Mapping[str, str]
    """Job -> why it waits, in the order of the queue."""
    promise: Promise | None = None


@dataclass(slots=True)
class _Board:
    """What is left to give while a decision is made."""

    floor: Floor
    now: float
    usable: int
    free: int
    running: list[tuple[float, int, str]]
    """When it ends, its phones, its name."""
    unusable: Mapping[str, str]
    first: str = ""
    kept: int = 0
    kept_until: float | None = None
    held: bool = False
    told: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Phones wanted -> which of them cannot serve, in words."""
    starts: list[Start] = field(default_factory=list)


def decide(
    floor: Floor,
    waiting: Sequence[Waiting],
    running: Sequence[Running],
    unusable: Mapping[str, str],
    now: float,
) -> Decision:
    """Whom to start, and what to tell the others. `unusable`: phone -> its state, such as lost."""
    busy = 0
    taken: list[tuple[float, int, str]] = []
    for run in running:
        bits = floor.bits(run.phones)
        busy |= bits
        # One that is over its time is being stopped: it may end at any moment.
        taken.append((math.inf if run.ends is None else max(run.ends, now), bits, run.name))
    usable = floor.bits(floor.names) & ~floor.bits(unusable)
    board = _Board(floor, now, usable, usable & ~busy, taken, unusable)
    waits = {}
    for job in sorted(waiting, key=lambda job: job.rank(now)):
        why = _try(board, job)
        if why is not None:
            waits[job.name] = why
    promise = None
    if board.first:
        promise = Promise(board.first, floor.phones(board.kept), board.kept_until, board.held)
    return Decision(tuple(board.starts), waits, promise)


def wanted(
    floor: Floor,
    waiting: Sequence[Waiting],
    unusable: Mapping[str, str],
    phones: Collection[str],
    now: float,
) -> bool:
    """Whether a job that waits could use one of these phones: it may have them, and enough phones
    serve, or have done so a moment ago, for that it can start at all."""
    usable = floor.bits(floor.names) & ~floor.bits(unusable)
    offered = floor.bits(phones)
    for job in waiting:
        may_have = floor.bits(job.among) if job.among else floor.bits(floor.names)
        can_start = (usable & may_have).bit_count() >= job.least
        soon = job.not_before - now <= HOLD_SECONDS
        if may_have & offered and soon and (can_start or now - job.promised < HOLD_SECONDS):
            return True
    return False


def _try(board: _Board, job: Waiting) -> str | None:
    """Start the job, or say why not."""
    eligible = board.usable
    if job.among:
        eligible &= board.floor.bits(job.among)
    free = eligible & board.free
    if job.not_before > board.now:
        again = f"tried again at {_clock(job.not_before)}"
        soon = job.not_before - board.now <= HOLD_SECONDS
        if soon and board.now - job.arrived >= AGEING_SECONDS:
            _hold(board, job, eligible, free)
        return f"{again}: {job.trouble}" if job.trouble else again
    if eligible.bit_count() < job.least:
        if board.now - job.promised < HOLD_SECONDS:
            _hold(board, job, eligible, free)
        return _cannot_serve(board, job, eligible)
    bound = board.first and not _ends_in_time(board, job)
    allowed = board.free & ~board.kept if bound else board.free
    if (eligible & allowed).bit_count() >= job.least:
        _start(board, job, eligible, allowed)
        return None
    if not board.first:
        return _promise(board, job, eligible, free)
    if free.bit_count() >= job.least:
        return f"{job.least} wanted; free phones are kept for {board.first}, which is first"
    return f"{job.least} wanted, {free.bit_count()} free; {board.first} is first"


def _ends_in_time(board: _Board, job: Waiting) -> bool:
    until = board.kept_until
    return (
        until is not None
        and job.limit_seconds is not None
        and board.now + job.limit_seconds <= until
    )


def _start(board: _Board, job: Waiting, eligible: int, allowed: int) -> None:
    open_bits = eligible & allowed
    count = open_bits.bit_count()
    ranks = count if job.most is None else min(count, job.most)
    chosen = board.floor.place(open_bits, ranks)
    rest = allowed & ~chosen
    spares = board.floor.place(rest, min(job.spares, rest.bit_count()), beside=chosen)
    board.free &= ~(chosen | spares)
    ends = math.inf if job.limit_seconds is None else board.now + job.limit_seconds
    board.running.append((ends, chosen | spares, job.name))
    floor = board.floor
    board.starts.append(Start(job.name, floor.phones(chosen), floor.phones(spares)))


def _hold(board: _Board, job: Waiting, eligible: int, free: int) -> None:
    """Keep phones for a job that cannot start just now, if it is the first one."""
    if not board.first:
        board.held = True
        _promise(board, job, eligible, free)


def _promise(board: _Board, job: Waiting, eligible: int, free: int) -> str:
    """Keep phones for the job, and say until when."""
    coming, at, blocking = 0, max(board.now, job.not_before), ""
    for ends, bits, name in sorted(board.running, key=lambda run: run[0]):
        if (coming | free).bit_count() >= job.least:
            break
        if not bits & eligible:
            continue
        coming |= bits & eligible
        at, blocking = max(ends, job.not_before), name
    if eligible.bit_count() < job.least:
        at, blocking = math.inf, "the phone that is missing"
    board.first = job.name
    more = f"{job.least} wanted, {free.bit_count()} free"
    if math.isinf(at):
        board.kept, board.kept_until = free, None
        return f"{more}; when is not known: {blocking} has no time limit"
    # Phones that come free in time are kept before those that are free, which others can use now.
    late = board.floor.place(coming, min(coming.bit_count(), job.least))
    early = board.floor.place(free, job.least - late.bit_count(), beside=late)
    board.kept, board.kept_until = late | early, at
    return f"{more}; starts at {_clock(at)} or earlier"


def _cannot_serve(board: _Board, job: Waiting, eligible: int) -> str:
    if job.among not in board.told:
        kinds: dict[str, list[str]] = {}
        for phone in job.among or board.floor.names:
            if phone in board.unusable:
                kinds.setdefault(board.unusable[phone], []).append(phone)
        board.told[job.among] = "; ".join(f"{_few(p)} {state}" for state, p in kinds.items())
    told = board.told[job.among]
    can = f"{job.least} wanted, {eligible.bit_count()} can serve"
    return f"{can}: {told}" if told else can


def _few(phones: Sequence[str]) -> str:
    return ", ".join(phones) if len(phones) <= 3 else f"{phones[0]} and {len(phones) - 1} more"


def _clock(moment: float) -> str:
    return time.strftime("%m-%d %H:%M", time.localtime(moment))
