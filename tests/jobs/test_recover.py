"""A job is carried on through failed attempts, lost supervisors and stops: the chain of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetctl.checks.phone import PhoneFacts
from fleetctl.jobs import checkpoints, onphone, recover, runs
from fleetctl.jobs.choose import Again, NotEnoughPhones, Wish, candidates, pick
from fleetctl.jobs.jobfile import Job, Train, write_job
from fleetctl.jobs.planning import build_plan
from fleetctl.jobs.room import Chosen, Prepared, Room
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.start import BrokenOff, StartError
from fleetctl.jobs.supervise import Watch
from fleetctl.jobs.verdict import Verdict
from fleetctl.rack import Network, Phone, Rack
from fleetctl.remote import Result
from fleetctl.state import State
from trainer.formats import MemoryNeed, Plan

RACK = Rack(
    name="r",
    network=Network(IPv4Network("10.0.0.0/24"), "ethernet"),
    phones={f"phone00{n}": Phone(f"phone00{n}", f"10.0.0.{n}") for n in range(1, 7)},
)
DONE = Verdict("done", None, {}, 0.99)
TRAIN = {
    "model": "digits-cnn",
    "data": "digits",
    "epochs": 1,
    "global_batch": 48,
    "optimizer": {"name": "sgd", "lr": 0.1},
}


TRAINING = Train.model_validate(TRAIN)


def lost(*phones: str) -> Verdict:
    culprits = {phone: f"{phone} is unreachable" for phone in phones}
    return Verdict("failed", "; ".join(culprits.values()), culprits, None, {}, "phones")


class Fleet:
    """Phones on which no process is ever left; `asked` is what all were told to do."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], str]] = []

    async def run(self, names: Any, command: str, **_: Any) -> dict[str, Result]:
        self.asked.append((tuple(names), command))
        return {name: Result(0) for name in names}

    async def run_on(self, *_: Any, **__: Any) -> Result:
        return Result(0)


class World:
    """The steps that an attempt takes on phones, played: `ends` says how one attempt after the
    other ends, `down` which phones do not pass preflight, `meanwhile` what else happens during
    which attempt. Every attempt comes 10 iterations on."""

    def __init__(self, folder: Path, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state, self.remarks = state, list[str]()
        self.ends: list[Verdict | Exception] = []
        self.down: set[str] = set()
        self.stuck = False
        self.free_bytes: int | None = None
        """Memory of each phone."""
        self.meanwhile: dict[int, Callable[[], None]] = {}
        self.followed: list[tuple[str, ...]] = []
        self.checkpoint: int | None = None
        fleet: Any = Fleet()
        self.fleet: Fleet = fleet
        paths: Any = SimpleNamespace(runs=folder)
        self.room = Room(fleet, RACK, state, paths, self.remarks.append)
        for name in ("follow", "begin", "choose_phones", "prepare", "write_versions"):
            monkeypatch.setattr(recover, name, getattr(self, name))
        monkeypatch.setattr(checkpoints, "newest", self.newest)
        monkeypatch.setattr(recover.past, "FIRST_PAUSE_SECONDS", 0.0)
        monkeypatch.setattr(recover, "WAIT_SECONDS", (0.0, 0.001, 0.001))
        plan: Any = SimpleNamespace(write=lambda path: path.touch())
        monkeypatch.setattr(RunFolder, "plan", lambda run: plan if run.plan_file.exists() else None)
        self.plan = plan

    def launched(self, job: Job, *phones: str, spares: tuple[str, ...] = ()) -> RunFolder:
        run = runs.create(self.room.paths.runs, "digits")
        self.state.allocate(run.name, [*phones, *spares])
        write_job(job, run.job_file)
        if job.train:
            run.plan_file.touch()
        run.record("created", phones=phones, spares=spares, iteration=0)
        run.record("started", head=phones[0], pid=7)
        return run

    async def follow(self, watch: Watch) -> Verdict:
        self.followed.append(watch.phones)
        if then := self.meanwhile.get(len(self.followed)):
            then()
        if not self.stuck:
            self.checkpoint = (self.checkpoint or 0) + 10
        ending = self.ends.pop(0) if self.ends else DONE
        if isinstance(ending, Exception):
            raise ending
        watch.run.record("attempt-ended", **ending.as_json())
        return ending

    async def begin(self, _: Room, run: RunFolder, prepared: Prepared, __: Any) -> None:
        if self.ends and isinstance(self.ends[0], StartError):
            raise BrokenOff(self.ends.pop(0), True, {})
        await asyncio.sleep(0.01)
        run.record("started", head=prepared.chosen.phones[0], pid=8)

    async def newest(self, *_: Any) -> Any:
        if self.checkpoint is None:
            raise checkpoints.NoCheckpoint("none")
        header = SimpleNamespace(iteration=self.checkpoint)
        return SimpleNamespace(header=header, path=Path(f"iteration-{self.checkpoint}.ckpt"))

    async def choose_phones(self, room: Room, wish: Wish, *, again: Again) -> Chosen:
        choice = candidates(RACK, room.state.phones(), 1e9, again.pool, again)
        known = [*choice.first, *choice.second]
        ready = [phone for phone in RACK.ring(known) if phone not in self.down]
        if len(ready) < wish.least:
            raise NotEnoughPhones(f"{wish.least} wanted, {len(ready)} ready")
        taken, spares = pick(ready, wish, again.keep)
        facts = {phone: PhoneFacts(phone, "", free_memory_bytes=self.free_bytes) for phone in ready}
        return Chosen(tuple(RACK.ring(taken)), facts, 0.1, spares)

    def prepare(self, _: Room, __: Any, chosen: Chosen, name: str, ___: Any) -> Prepared:
        return Prepared(name, chosen, self.plan, ("mpirun",), "5.0", True)

    def write_versions(self, *_: Any) -> None:
        pass


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "state.db") as state:
        yield state


@pytest.fixture
def world(tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path / "runs", state, monkeypatch)


def job(**keys: Any) -> Job:
    return Job.model_validate({"name": "digits", "train": TRAIN, **keys})


def carried(world: World, run: RunFolder) -> Verdict:
    return asyncio.run(recover.reattach(world.room, run))


def held(state: State) -> set[str]:
    return {name for name, facts in state.phones().items() if facts.run}


def test_another_phone_takes_the_place_of_a_lost_one(world: World, state: State) -> None:
    run = world.launched(job(phones="3"), "phone001", "phone002", "phone003")
    world.ends = [lost("phone002")]
    assert carried(world, run).state == "done"
    assert world.followed == [
        ("phone001", "phone002", "phone003"),
        ("phone001", "phone003", "phone004"),
    ]
    summary = run.summary()
    assert (summary.state, summary.attempts, summary.test_accuracy) == ("done", 2, 0.99)
    assert run.attempt_name == "digits-1.2"
    assert held(state) == set()


def test_a_spare_comes_before_any_other_phone(world: World) -> None:
    run = world.launched(job(phones="2", spares=1), "phone001", "phone002", spares=("phone006",))
    world.ends = [lost("phone001")]
    carried(world, run)
    assert world.followed[-1] == ("phone002", "phone006")


def test_a_job_that_takes_all_phones_but_its_spares_goes_on_so(world: World) -> None:
    run = world.launched(job(spares=2), *list(RACK.phones)[:4], spares=("phone005", "phone006"))
    world.ends = [lost("phone001")]
    carried(world, run)
    assert world.followed[-1] == ("phone002", "phone003", "phone004", "phone005")
    assert run.summary().spares == ("phone006",)


def test_a_phone_that_failed_is_back_in_the_next_attempt_once_it_was_found_good(
    world: World, state: State
) -> None:
    def fails() -> None:
        state.record_health("phone002", "CRITICAL", "it hung")

    run = world.launched(job(), *RACK.phones)
    world.meanwhile = {1: fails, 3: lambda: state.record_health("phone002", "OK")}
    regroup = Verdict("failed", "1 more", {}, None, {}, "interrupted")
    world.ends = [lost("phone002"), regroup, regroup]
    assert carried(world, run).state == "done"
    everybody, others = tuple(RACK.phones), tuple(p for p in RACK.phones if p != "phone002")
    assert world.followed == [everybody, others, others, everybody]


def test_named_phones_are_left_fewer_rather_than_joined_by_others(world: World) -> None:
    run = world.launched(job(phones="phone[001-003]"), "phone001", "phone002", "phone003")
    world.ends = [lost("phone001")]
    carried(world, run)
    assert world.followed[-1] == ("phone002", "phone003")


def test_below_the_minimum_the_job_waits_for_the_phone_that_failed(world: World) -> None:
    named = job(phones="phone[001-002]", minimum=2)
    run = world.launched(named, "phone001", "phone002")
    world.ends = [lost("phone001")]
    assert carried(world, run).state == "done"
    assert world.followed[-1] == ("phone001", "phone002")
    world.ends, world.down = [lost("phone001")], {"phone001"}
    run = world.launched(named, "phone001", "phone002")
    verdict = carried(world, run)
    assert verdict.state == "failed"
    assert "given up: 2 wanted, 1 ready" in str(verdict.reason)
    assert [e["kind"] for e in run.events()].count("waiting") == 2


def test_one_that_came_by_the_queue_waits_there_again_and_goes_on_in_its_turn(
    world: World, state: State
) -> None:
    run = world.launched(job(phones="2", minimum=2), "phone001", "phone002")
    world.ends, world.down = [lost("phone001")], {*RACK.phones} - {"phone002"}
    told: list[str] = []

    def carry(*offered: str) -> Verdict:
        with run.supervise():
            carrying = recover.carry(world.room, run, offered=offered, give_back=told.append)
            return asyncio.run(carrying)

    carry()
    assert told == ["2 wanted, 1 ready"]
    assert (run.summary().state, held(state)) == ("recovering", set())

    world.down = set()
    assert carry("phone005", "phone006").state == "done"
    assert run.summary().phones == ("phone002", "phone005")


def test_fewer_phones_compute_their_larger_shares_in_parts_that_memory_is_enough_for(
    world: World,
) -> None:
    run = world.launched(job(phones="4"), *list(RACK.phones)[:4])
    mib = 1 << 20
    MemoryNeed(300 * mib, 400 * mib, 100 * mib, 20 * mib).write(run.memory_file)
    world.plan = build_plan(TRAINING, "digits-1.2", ("phone001", "phone002"))
    world.ends, world.down = [lost("phone003", "phone004")], {"phone005", "phone006"}
    world.free_bytes = 1000 * mib
    carried(world, run)
    assert world.plan.samples_per_rank == (24, 24)
    assert Plan.read(run.plan_file).accumulate == 2
    assert "computes its samples in 2 parts" in "".join(world.remarks)


def test_two_phones_at_once(world: World) -> None:
    run = world.launched(job(phones="4"), *list(RACK.phones)[:4])
    world.ends = [lost("phone002", "phone003")]
    carried(world, run)
    assert world.followed[-1] == ("phone001", "phone004", "phone005", "phone006")


def test_of_older_attempts_only_the_last_stays_on_phones(world: World) -> None:
    run = world.launched(job(phones="2"), "phone001", "phone002")
    world.ends = [lost("phone001"), lost("phone002"), lost("phone003")]
    carried(world, run)
    everybody = ("phone001", "phone002", "phone003", "phone004", "phone005")
    told = [order for order in world.fleet.asked if "rm -rf" in order[1]]
    assert told == [
        (everybody[:4], onphone.remove_runs(["digits-1"])),
        (everybody, onphone.remove_runs(["digits-1", "digits-1.2"])),
    ]


def test_attempts_without_progress_come_to_an_end(world: World, state: State) -> None:
    run = world.launched(job(phones="2"), "phone001", "phone002")
    world.ends, world.stuck = [Verdict("failed", "mpirun vanished", {}, None)] * 9, True
    verdict = carried(world, run)
    assert (verdict.state, len(world.followed)) == ("failed", 3)
    assert verdict.reason == "mpirun vanished; given up: 3 attempts in a row have come no further"
    assert held(state) == set()


def test_a_start_that_fails_is_an_attempt(world: World) -> None:
    run = world.launched(job(phones="2"), "phone001", "phone002")
    world.ends = [lost("phone001"), StartError("no mpirun", {"phone002": "it is full"})]
    assert carried(world, run).state == "done"
    assert run.summary().attempts == 3
    assert world.followed[-1] == ("phone003", "phone004")


@pytest.mark.parametrize(
    ("ending", "keys"),
    [
        (Verdict("failed", "nan", {}, None, {}, "program"), {"phones": "2"}),
        (lost("phone001"), {"phones": "2", "train": None, "command": ["true"]}),
    ],
)
def test_what_no_other_phone_helps_against_ends_the_run(
    world: World, ending: Verdict, keys: dict[str, Any]
) -> None:
    run = world.launched(job(**keys), "phone001", "phone002")
    world.ends = [ending]
    assert carried(world, run) == ending
    assert len(world.followed) == 1


def test_a_stop_between_two_attempts_is_heard(world: World, state: State) -> None:
    run = world.launched(job(phones="2"), "phone001", "phone002")
    world.ends = [lost("phone001")]
    stop = asyncio.Event()

    def hear(remark: str) -> None:
        if "attempt 1 failed" in remark:
            stop.set()

    room = Room(world.room.fleet, RACK, state, world.room.paths, hear)

    async def go() -> Verdict:
        with run.supervise():
            return await recover.carry(room, run, stop_requested=stop)

    assert asyncio.run(go()).state == "stopped"
    assert (run.summary().state, len(world.followed), held(state)) == ("stopped", 1, set())


def test_a_supervisor_that_is_lost_at_any_event_is_replaced_by_the_next(
    world: World, state: State
) -> None:
    """What stands in the folder is enough, wherever the record breaks off."""
    run = world.launched(job(phones="3"), "phone001", "phone002", "phone003")
    world.ends = [lost("phone002")]
    carried(world, run)
    lines = run.events_file.read_text().splitlines(keepends=True)
    kinds = [event["kind"] for event in run.events()]
    assert kinds[-2:] == ["attempt-ended", "ended"]
    for length in range(1, len(lines)):
        run.events_file.write_text("".join(lines[:length]))
        state.release(run.name)
        state.allocate(run.name, ["phone001", "phone003"])
        world.ends = [lost("phone002")] if "attempt-ended" not in kinds[:length] else []
        assert carried(world, run).state == "done", kinds[:length]
        assert held(state) == set()
        assert run.summary().state == "done"
