"""`bench collectives`: every method on every number of phones, a launch each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from fleetctl.bench.document import CollectivesBench, MethodFit
from fleetctl.bench.exchanges import misfits_of, switches_of
from fleetctl.bench.fit import RingSample, fit_ring
from fleetctl.bench.links import Pair
from fleetctl.bench.net import Network
from fleetctl.bench.session import BenchError, Session, Stopped
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import InputError
from trainer.formats import Collectives, CollectivesSpec, CollectiveTime, Method, ModelSpec

METHODS: tuple[Method, ...] = ("ring", "hierarchical", "mpi", "mpi-tuned", "gloo")
RINGS = ("ring", "mpi-tuned", "gloo")
"""Methods whose cost is that of a ring, so that α and B can be read from them."""

_GOODPUT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class CollectivesWish:
    counts: tuple[int, ...]
    methods: tuple[Method, ...]
    sizes_bytes: tuple[int, ...]
    repeats: int
    models: tuple[ModelSpec, ...] = ()


def possible_methods(
    session: Session, asked: Collection[str] | None, phones: int
) -> tuple[Method, ...]:
    """Those asked for, else all that so many of the session's phones can do. Raises InputError for
    one that they cannot do."""
    methods = tuple(method for method in METHODS if asked is None or method in asked)
    misfits = misfits_of(methods, session.room.rack, session.phones[:phones])
    for method, reason in misfits.items():
        if asked is not None:
            raise InputError(reason)
        session.room.remark(f"{method} is left out: {reason}")
    return tuple(method for method in methods if method not in misfits)


async def measure(session: Session, wish: CollectivesWish) -> CollectivesBench:
    """Everything that `wish` asks for. A method that fails is a problem in the document, not the
    end; Ctrl-C leaves what there is."""
    launches: list[Collectives] = []
    goodput = await _goodput_mbits(session)
    bench = _bench(session, launches, goodput)
    try:
        for count in wish.counts:
            for method in wish.methods:
                spec_of = partial(_spec, session, wish, method)
                try:
                    answers = await session.measure(
                        "collectives", method, spec_of, Collectives, count=count
                    )
                except BenchError as error:
                    session.note(str(error))
                else:
                    launches.append(answers[0])
                    problems = session.problems
                    problems += [m for m in answers[0].missing if m not in problems]
                bench = _bench(session, launches, goodput)
                session.keep(bench)
    except Stopped as stopped:
        session.problems.append(str(stopped))
        bench = _bench(session, launches, goodput)
        session.keep(bench)
    return bench


def _spec(
    session: Session, wish: CollectivesWish, method: Method, phones: tuple[str, ...]
) -> CollectivesSpec:
    return CollectivesSpec(
        phones,
        method,
        wish.sizes_bytes,
        wish.repeats,
        wish.models,
        with_patterns=method == "mpi",
        switches=switches_of(session.room.rack, phones),
    )


def _bench(
    session: Session, launches: Sequence[Collectives], goodput: float | None
) -> CollectivesBench:
    fits = []
    for method in RINGS:
        if samples := ring_samples(launches, method):
            try:
                fits.append(MethodFit(method, fit_ring(samples)))
            except ValueError:
                continue  # too few sizes or phones so far
    return CollectivesBench(
        session.known(), tuple(launches), goodput, tuple(fits), tuple(session.problems)
    )


async def _goodput_mbits(session: Session) -> float | None:
    """Of one pair by iperf3, alone: what a link carries, for the bound."""
    if len(session.phones) < 2:
        return None
    room, name = session.room, session.folder.name
    pair = Pair(*session.phones[:2])
    with RunFolder(session.folder).supervise():
        room.state.allocate(name, (pair.sender, pair.receiver))
        try:
            network = Network(room.rack, room.fleet, room.remark)
            flows = await network.alone([pair], _GOODPUT_SECONDS)
        finally:
            room.state.release(name)
    if flows[0].problem:
        room.remark(f"no goodput, and so no bound: {flows[0].problem}")
    return flows[0].goodput_mbits


def ring_samples(launches: Iterable[Collectives], method: str) -> list[RingSample]:
    """The all-reduces of one array, the fastest of their repeats: what else a phone does then adds
    to a time, nothing takes from it."""
    return [
        RingSample(len(launch.phones), time.bytes, min(time.seconds))
        for launch in launches
        if launch.method == method
        for time in launch.times
        if time.operation == "all-reduce" and time.model is None
    ]


def bound_seconds(time: CollectiveTime, phones: int, goodput_mbits: float) -> float:
    """What the busiest link must carry, at that goodput: no method is faster.

    One-to-many: the first phone sends everything to each of the others by plain messages, and
    everything once in a broadcast.
    """
    bytes_per_second = goodput_mbits * 1e6 / 8
    share = (phones - 1) / phones
    match time.operation:
        case "all-reduce":
            traffic = 2 * share * time.bytes
        case "many-to-many":
            traffic = share * time.bytes
        case "one-to-many":
            traffic = time.bytes * (phones - 1 if time.method == "messages" else 1)
    return traffic / bytes_per_second
