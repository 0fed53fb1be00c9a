"""From a job to a run that is going on: choose, preflight, allocate, stage, start."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from fleetctl import __version__
from fleetctl.checks import phone as preflight
from fleetctl.checks.hardware import heat
from fleetctl.checks.health import keep
from fleetctl.checks.registry import Outcome
from fleetctl.errors import ExitCode, FleetError
from fleetctl.jobs import (
    checkpoints,
    choose,
    mpirun,
    names,
    onphone,
    rehearsal,
    runs,
    settle,
    staging,
)
from fleetctl.jobs.jobfile import Job, JobError, read_job, write_job
from fleetctl.jobs.planning import build_plan
from fleetctl.jobs.room import Chosen, Prepared, Room
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.start import BrokenOff, StartError, begin
from fleetctl.jobs.verdict import Verdict
from fleetctl.rack import Rack
from fleetctl.rack.files import write_atomic
from fleetctl.rack.nodesets import fold
from fleetctl.state import Drained, Held
from trainer.formats import MemoryNeed

__all__ = ["Chosen", "Prepared", "Room", "StartError"]


class NotCleared(FleetError):
    """A start was broken off, and phones on which something of it may run did not answer."""

    exit_code: ClassVar[ExitCode] = ExitCode.SOME_PHONES_FAILED


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asks for. `files` go into the run folder of every phone."""

    job: Job
    wish: choose.Wish
    files: tuple[Path, ...] = ()
    resume: RunFolder | None = None
    name: str | None = None
    """The run's whole name, if a person has chosen it."""


@dataclass(slots=True)
class _Look:
    """What preflight has found out of those that were asked; kept in the state, if `lasting`.
    `memory`: what a rank needs, where that is known."""

    room: Room
    lasting: bool
    memory: MemoryNeed | None
    facts: dict[str, preflight.PhoneFacts] = field(default_factory=dict)
    outcomes: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    hot: dict[str, str] = field(default_factory=dict)

    async def ask_more(self, phones: Collection[str], wish: choose.Wish) -> None:
        """Ask these too, unless there are enough."""
        cool = [phone for phone in self.ready if phone not in self.hot]
        if not phones or choose.enough(len(cool), wish):
            return
        rack, state = self.room.rack, self.room.state
        self.facts |= await preflight.gather(
            self.room.fleet,
            rack,
            phones,
            keep_stamp=self.lasting,
            wanted_revocations=state.wanted_revocations(),
        )
        self.outcomes = preflight.judge(preflight.with_common_versions(self.facts), rack)
        self.failed = _failures(self.outcomes)
        if self.memory is not None:
            free = {phone: known.free_memory_bytes for phone, known in self.facts.items()}
            self.failed |= rehearsal.too_small(self.memory, free)
        self.hot = {name: why for name in self.facts if (why := heat(self.facts[name], rack))}
        if self.lasting:
            keep(state, self.facts, self.outcomes)

    @property
    def ready(self) -> list[str]:
        """Those that pass, in ring order."""
        return self.room.rack.ring([phone for phone in self.facts if phone not in self.failed])


async def choose_phones(
    room: Room, wish: choose.Wish, *, dry: bool = False, again: choose.Again | None = None
) -> Chosen:
    """Preflight the candidates and take those that pass, in ring order; a further attempt of a run
    goes on with what it has left, first of all.

    Raises NotEnoughPhones. What was found out is kept in the state, unless `dry`.
    """
    began = time.monotonic()
    known, switches = room.state.phones(), room.rack.switch_of
    look = _Look(room, not dry, again.memory if again else None)
    pool = again.pool if again else wish.named or wish.offered
    choice = choose.candidates(room.rack, known, time.time(), pool, again)
    for batch in choose.batches(choice, wish, again, switches):
        await look.ask_more(batch, wish)
    if len(look.ready) < wish.least:
        raise choose.too_few(wish.least, look.ready, choice, look.failed)
    others = {*(wish.offered or room.rack.enrolled)} - {*wish.named}
    if wish.named and wish.spares and others and again is None:
        beside = choose.candidates(room.rack, known, time.time(), sorted(others))
        for batch in choose.batches(beside, wish, None):
            await look.ask_more(batch, wish)
    hot = look.hot
    taken, spares = choose.pick(look.ready, wish, again.keep if again else (), hot, switches)
    chosen = {*taken, *spares}
    avoided = {p: hot[p] for p in look.ready if p in hot and p not in chosen}
    _tell(room, look.outcomes, look.failed)
    for phone, why in avoided.items():
        room.remark(f"left out for its heat: {phone}: {why}")
    seconds = time.monotonic() - began
    return Chosen(tuple(room.rack.ring(taken)), look.facts, seconds, spares, avoided)


def _failures(outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, str]:
    """Phone -> why it fails preflight."""
    return {
        name: "; ".join(f"{o.result.message}; {o.check.cure}" for o in critical)
        for name, found in outcomes.items()
        if (critical := [o for o in found if o.result.status == "CRITICAL"])
    }


def _tell(room: Room, outcomes: Mapping[str, Sequence[Outcome]], failed: Mapping[str, str]) -> None:
    for line in preflight.folded(outcomes, "WARN"):
        room.remark(f"warning: {line}")
    for phone, why in failed.items():
        room.remark(f"passed over: {phone}: {why}")


def refuse_without_torch(rack: Rack) -> None:
    """Raises JobError."""
    if rack.versions.torch == "none":
        raise JobError(
            "the rack file says `versions: {torch: none}`, so its phones cannot train; remove "
            "that and run site.yml -t termux, or launch a program of your own (`-- COMMAND`)"
        )


def prepare(
    room: Room, request: Request, chosen: Chosen, name: str, resume: str | None
) -> Prepared:
    """Plan and mpirun line of an attempt. Pure but for reading the data set; call it in a
    thread, since what changed of that is verified."""
    job, rack = request.job, room.rack
    plan = None
    if job.train is not None:
        refuse_without_torch(rack)
        data = staging.read_data(room.paths.data, job.train.data)
        switches = [rack.phones[phone].switch or "" for phone in chosen.phones]
        plan = build_plan(
            job.train,
            name,
            chosen.phones,
            resume,
            switches=switches,
            data=data.manifest,
            drain_celsius=rack.guard.drain_celsius,
        )
    release = chosen.facts[chosen.phones[0]].release
    world = mpirun.World(
        series=rack.versions.openmpi,
        run=name,
        ranks=len(chosen.phones),
        cidr=str(rack.network.cidr),
        folder=onphone.folder(name),
        environment={"PYTHONPATH": f"{onphone.RELEASES}/{release}/python"},
        allreduce=plan.exchange.algorithm if plan is not None else "default",
    )
    trainer = [onphone.PYTHON, "-m", "trainer", "plan.json"]
    program = [onphone.SHELL, "rank.sh", *(job.command or trainer)]
    addresses = {phone: rack.phones[phone].address for phone in chosen.phones}
    line = tuple(mpirun.arguments(world, program))
    alone = job.command is None
    return Prepared(name, chosen, plan, line, world.series, alone, addresses)


async def rehearse(room: Room, prepared: Prepared) -> Prepared:
    """Refuse what torch will not do, or what will not fit in memory; returns the plan with what
    does fit. Raises NotRehearsed."""
    if prepared.plan is None:
        return prepared
    chosen, plan = prepared.chosen, prepared.plan
    free_bytes = chosen.free_bytes
    release = chosen.facts[chosen.phones[0]].release
    need = await rehearsal.rehearse(room.fleet, plan, release, room.paths.data, free_bytes)
    if need is None:
        return prepared
    return replace(prepared, plan=rehearsal.with_room(plan, need, free_bytes), memory=need)


async def launch(
    room: Room, request: Request, stack: ExitStack, run: RunFolder | None = None
) -> tuple[RunFolder, Prepared]:
    """Bring the job to the point where mpirun runs; `stack` then holds the supervisor's lock.

    Whatever fails on the way leaves no phone held, and a run folder that says why once a phone
    was touched. But when phones broke off the start of a training, that was its first attempt:
    `recover.carry` goes on without them. `run`: the folder of a job that was queued, which the
    caller supervises; it stays, as it was, when no phone was touched or something else than phones
    cut the start off, unless the job may have begun: a training then has an attempt behind it.
    """
    queued = run is not None
    found = None
    if request.resume is not None:
        found = await find_checkpoint(room, request.resume)
    chosen = await choose_phones(room, request.wish)
    if run is None:
        run = _new_folder(room, request)
        stack.enter_context(run.supervise())
    try:
        chosen = await _allocate(room, request, chosen, run.name)
        resume = f"resume/{found.path.name}" if found else None
        prepared = await asyncio.to_thread(prepare, room, request, chosen, run.name, resume)
        prepared = await rehearse(room, prepared)
        _write_folder(run, request, prepared, found)
    except BaseException:
        room.state.release(run.name)
        if not queued:
            shutil.rmtree(run.path)
        raise
    try:
        await begin(room, run, prepared, found)
    except BrokenOff as end:
        if end.culprits and prepared.plan is not None:
            end.note(room.state, run)
            return run, prepared
        if queued and not end.told and not end.started:
            _undo(room, run)
            raise end.cause from None
        if queued and not end.told and prepared.plan is not None:
            end.note(room.state, run)
            raise end.cause from None
        state: Literal["failed", "stopped"] = "failed" if end.told else "stopped"
        reason = "; ".join([end.reason, *end.left.values()])
        settle.conclude(room.state, run, Verdict(state, reason, {}, None, end.left))
        if end.left and not end.told:
            cure = f"`fleetctl stop {run.name}` clears {fold(end.left)} once they answer"
            raise NotCleared(f"{run.name} was {end.reason}; {cure}") from end.cause
        raise end.cause from None
    return run, prepared


def _undo(room: Room, run: RunFolder) -> None:
    """The job waits for its start again, as it did before."""
    run.events_file.unlink()
    run.plan_file.unlink(missing_ok=True)
    room.state.release(run.name, why="its start was cut off")


def _new_folder(room: Room, request: Request) -> RunFolder:
    if request.name is not None:
        return names.claim(room.paths.runs, request.name)
    return runs.create(room.paths.runs, request.job.name)


async def look_for_checkpoint(room: Room, old: RunFolder) -> str:
    """The file name of what `find_checkpoint` finds; the old run's folder stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        copy = RunFolder(Path(folder) / old.name)
        shutil.copytree(old.path.absolute(), copy.path, copy_function=os.symlink)
        copy.events_file.unlink()
        shutil.copyfile(old.events_file, copy.events_file)
        return (await find_checkpoint(room, copy)).path.name


async def find_checkpoint(room: Room, old: RunFolder) -> checkpoints.Found:
    """The newest valid checkpoint of the run to be resumed. Raises JobError or NoCheckpoint."""
    summary = old.summary()
    if not summary.over:
        raise JobError(f"run {old.name} is not over; stop it first with `fleetctl stop {old.name}`")
    if summary.state == "done":
        raise JobError(f"run {old.name} is done; there is nothing to resume")
    if old.plan() is None:
        raise JobError(f"run {old.name} is a command without a plan; it keeps no checkpoints")
    found = await checkpoints.newest(room.fleet, old, old.phones_of_all_attempts())
    for event in old.events():
        if event["kind"] == "checkpoint-refused":
            room.remark(f"warning: {event['name']} of {event['phone']} not used: {event['reason']}")
    room.remark(f"resuming {old.name} from iteration {found.header.iteration}")
    return found


async def _allocate(room: Room, request: Request, chosen: Chosen, name: str) -> Chosen:
    """Take the phones; when another launch or a drain was quicker, take others if the wish allows
    it."""
    while True:
        try:
            room.state.allocate(name, [*chosen.phones, *chosen.spares])
            return chosen
        except (Held, Drained):
            if request.wish.named or request.wish.offered:
                raise
            chosen = await choose_phones(room, request.wish)


def _write_folder(
    run: RunFolder, request: Request, prepared: Prepared, found: checkpoints.Found | None
) -> None:
    """The run's folder on the controller, before anything happens."""
    write_job(request.job, run.job_file)
    if prepared.plan is not None:
        prepared.plan.write(run.plan_file)
        run.checkpoints.mkdir(exist_ok=True)
    if prepared.memory is not None:
        prepared.memory.write(run.memory_file)
    write_versions(run, prepared.chosen)
    files = run.path / "files"
    for file in request.files:
        files.mkdir(exist_ok=True)
        shutil.copy2(file, files / file.name)
    if found is not None:
        # A run that dies before its first checkpoint can then be resumed in its turn.
        shutil.copy2(found.path, run.checkpoints / found.path.name)
    run.record(
        "created",
        phones=prepared.chosen.phones,
        spares=prepared.chosen.spares,
        avoided=dict(prepared.chosen.avoided),
        preflight_seconds=round(prepared.chosen.preflight_seconds, 3),
        resumed_from=request.resume.name if request.resume else None,
        iteration=found.header.iteration if found else 0,
        mpirun=prepared.mpirun,
    )


def write_versions(run: RunFolder, chosen: Chosen) -> None:
    """versions.json: which phones had which release, Open MPI and Python."""
    versions: dict[str, Any] = {"fleetctl": __version__}
    for key in ("release", "openmpi", "python"):
        phones: dict[str, list[str]] = defaultdict(list)
        for phone in chosen.phones:
            phones[str(getattr(chosen.facts[phone], key))].append(phone)
        versions[key] = {version: fold(names) for version, names in phones.items()}
    write_atomic(run.versions_file, json.dumps(versions, indent=2) + "\n")


def job_of(run: RunFolder) -> Job:
    """The job that a run was made from, for `--resume`."""
    return read_job(run.job_file)
