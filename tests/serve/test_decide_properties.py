"""What no sequence of arrivals, ends, drains and failures can break."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fleetctl.rack.placement import Floor
from fleetctl.serve.decide import AGEING_SECONDS, Decision, Promise, Running, Waiting, decide

SIZES = (5, 4, 3)
FLOOR = Floor(
    tuple(f"phone{i:03}" for i in range(sum(SIZES))),
    tuple(f"sw{i}" for i, size in enumerate(SIZES) for _ in range(size)),
)
LONGEST_SECONDS = 3 * AGEING_SECONDS
MOST_URGENT = 2
PHONES = st.sampled_from(FLOOR.names)


@dataclass
class World:
    """A rack whose jobs end when they like, within their limits."""

    now: float = 0.0
    waiting: dict[str, Waiting] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    drained: set[str] = field(default_factory=set)
    numbers: int = 0
    promise: Promise | None = None
    started: list[Waiting] = field(default_factory=list)

    def arrive(self, wanted: int, limit: float | None, **options: object) -> Waiting:
        self.numbers += 1
        facts: dict[str, object] = {"least": wanted, "most": wanted} | options
        job = Waiting(f"job-{self.numbers}", self.numbers, self.now, limit_seconds=limit, **facts)  # type: ignore[arg-type]
        self.waiting[job.name] = job
        return job

    def decide(self) -> Decision:
        unusable = dict.fromkeys(self.drained, "drained")
        decision = decide(
            FLOOR, list(self.waiting.values()), list(self.running.values()), unusable, self.now
        )
        self.check(decision)
        for start in decision.starts:
            job = self.waiting.pop(start.name)
            self.started.append(job)
            limit = job.limit_seconds
            ends = None if limit is None else self.now + limit
            self.running[job.name] = Running(job.name, (*start.phones, *start.spares), ends)
            self.ends[job.name] = self.now + (LONGEST_SECONDS if limit is None else limit)
        self.promise = decision.promise
        if decision.promise is not None and not decision.promise.held:
            first = self.waiting[decision.promise.name]
            self.waiting[first.name] = replace(first, promised=self.now)
        return decision

    def check(self, decision: Decision) -> None:
        busy = [phone for run in self.running.values() for phone in run.phones]
        given = [phone for start in decision.starts for phone in (*start.phones, *start.spares)]
        assert len({*busy, *given}) == len(busy) + len(given), "a phone in two jobs"
        assert not self.drained.intersection(given), "a drained phone used"
        for start in decision.starts:
            job = self.waiting[start.name]
            assert job.least <= len(start.phones) <= (job.most or len(FLOOR.names))
            assert not job.among or {*start.phones} <= {*job.among}
            assert job.not_before <= self.now
            assert list(start.phones) == sorted(start.phones), "not in ring order"
        started = {start.name for start in decision.starts}
        assert started | decision.waits.keys() == self.waiting.keys(), "a job without a word"
        self.check_order(started)
        self.check_promise(decision, started)

    def check_order(self, started: set[str]) -> None:
        """Of jobs that ask for the same, none passes one that stands before it."""
        passed: dict[object, Waiting] = {}
        for job in sorted(self.waiting.values(), key=lambda job: job.rank(self.now)):
            if job.not_before > self.now:
                continue
            shape = (job.least, job.most, job.spares, job.among, job.limit_seconds)
            if job.name not in started:
                passed.setdefault(shape, job)
            else:
                assert shape not in passed, f"{job.name} passed {passed[shape].name}"

    def check_promise(self, decision: Decision, started: set[str]) -> None:
        """A promised time never moves back, unless somebody more urgent came or phones went."""
        old, new = self.promise, decision.promise
        if old is None or old.at is None or old.name not in self.waiting:
            return
        before = self.waiting[old.name].rank(self.now)
        if any(self.waiting[name].rank(self.now) < before for name in started):
            return
        if new is not None and new.name == old.name:
            assert new.at is not None
            assert new.at <= max(old.at, self.now)
        if self.now >= old.at and (new is None or new.name == old.name):
            assert old.name in started, f"{old.name} was promised to start by now"

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for name in [name for name, end in self.ends.items() if end <= self.now]:
            self.end(name)

    def end(self, name: str) -> None:
        del self.running[name], self.ends[name]


class Queue(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @rule(
        wanted=st.integers(1, len(FLOOR.names)),
        limit=st.none() | st.sampled_from([600.0, 3600.0, LONGEST_SECONDS]),
        priority=st.integers(-MOST_URGENT, MOST_URGENT),
        spares=st.integers(0, 2),
    )
    def somebody_queues_a_job(
        self, wanted: int, limit: float | None, priority: int, spares: int
    ) -> None:
        self.world.arrive(wanted, limit, priority=priority, spares=spares)

    @rule(least=st.integers(1, 4), more=st.integers(0, 8), limit=st.none() | st.just(600.0))
    def somebody_queues_one_that_takes_fewer(
        self, least: int, more: int, limit: float | None
    ) -> None:
        self.world.arrive(least, limit, most=least + more)

    @rule(phones=st.sets(PHONES, min_size=1, max_size=4), limit=st.none() | st.just(3600.0))
    def somebody_wants_certain_phones(self, phones: set[str], limit: float | None) -> None:
        self.world.arrive(len(phones), limit, among=tuple(sorted(phones)))

    @rule(wanted=st.integers(1, 6), seconds=st.sampled_from([60.0, 900.0]))
    def a_start_failed(self, wanted: int, seconds: float) -> None:
        self.world.arrive(wanted, None, not_before=self.world.now + seconds)

    @precondition(lambda self: self.world.waiting)
    @rule(data=st.data(), seconds=st.sampled_from([60.0, 900.0]))
    def one_is_tried_again_later(self, data: st.DataObject, seconds: float) -> None:
        world = self.world
        job = world.waiting[data.draw(st.sampled_from(sorted(world.waiting)))]
        world.waiting[job.name] = replace(job, not_before=world.now + seconds)
        world.promise = None

    @rule(phone=PHONES)
    def a_phone_flaps(self, phone: str) -> None:
        """Away for a minute: what was kept for the first one stays so."""
        world = self.world
        if phone in world.drained:
            return
        first = world.promise.name if world.promise and not world.promise.held else None
        world.drained.add(phone)
        world.promise = None
        world.pass_time(60.0)
        decision = world.decide()
        before = world.waiting[first].rank(world.now) if first in world.waiting else None
        if before is not None and decision.promise is not None:
            promised = world.waiting[decision.promise.name]
            assert promised.rank(world.now) <= before, f"{promised.name} took the place of {first}"
        world.drained.remove(phone)
        world.promise = None

    @rule(seconds=st.sampled_from([1.0, 300.0, 600.0, 3600.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @precondition(lambda self: self.world.running)
    @rule(data=st.data())
    def a_job_ends_early(self, data: st.DataObject) -> None:
        self.world.end(data.draw(st.sampled_from(sorted(self.world.running))))

    @rule(phone=PHONES)
    def a_phone_is_drained(self, phone: str) -> None:
        self.world.drained.add(phone)
        self.world.promise = None

    @precondition(lambda self: self.world.drained)
    @rule(data=st.data())
    def a_phone_comes_back(self, data: st.DataObject) -> None:
        self.world.drained.remove(data.draw(st.sampled_from(sorted(self.world.drained))))
        # A job that could not start at all may now be the first.
        self.world.promise = None

    @invariant()
    def a_decision_keeps_every_rule(self) -> None:
        self.world.decide()

    def teardown(self) -> None:
        """Whatever stands in the queue gets its turn, though urgent ones keep coming, phones
        flap, and starts fail."""
        world = self.world
        world.drained.clear()
        world.promise = None
        old, failed = set(world.waiting), set[str]()
        rounds = 0
        while old & world.waiting.keys():
            world.arrive(3, 1800.0, priority=MOST_URGENT)
            world.arrive(len(FLOOR.names), None, priority=MOST_URGENT)
            for part in range(6):
                world.drained = {FLOOR.names[(rounds + part) % len(FLOOR.names)]}
                world.promise = None
                world.decide()
                world.pass_time(60.0)
                world.drained, world.promise = set(), None
                for start in world.decide().starts:
                    if start.name in old - failed:  # its first start comes to nothing
                        failed.add(start.name)
                        world.end(start.name)
                        job = next(each for each in world.started if each.name == start.name)
                        world.waiting[job.name] = replace(job, not_before=world.now + 30.0)
                        world.promise = None
                world.pass_time(240.0)
            rounds += 1
            # Urgent for two steps less than their age: then each takes its turn of the longest,
            # twice where its first start failed.
            turns = (2 * len(old) + 6 * MOST_URGENT) * LONGEST_SECONDS / 1800
            assert rounds <= turns + 6 * MOST_URGENT, f"{old & world.waiting.keys()} starve"


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
