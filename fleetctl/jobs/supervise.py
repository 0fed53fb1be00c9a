"""Follow a run that is going on, notice what goes wrong, and end it well.

The first follower and one that re-attaches do the same: everything is read anew from the head
phone, so nothing depends on what an earlier process of fleetctl still knew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from fleetctl.checks import vitals
from fleetctl.jobs import checkpoints, copies, looks, onphone, probes
from fleetctl.jobs.alone import Network
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.settle import clear_up, conclude
from fleetctl.jobs.silence import Silence
from fleetctl.jobs.stragglers import Stragglers
from fleetctl.jobs.tracker import Tracker
from fleetctl.jobs.verdict import Verdict
from fleetctl.remote import Fleet, PhoneError
from fleetctl.state import State
from trainer.formats import (
    CheckpointEvent,
    Event,
    FormatError,
    Plan,
    Progress,
    SharesEvent,
    StartEvent,
    event_from_json,
)

PATIENCE_WITH_THE_LIVING = 10
"""Deadlines that may pass while every phone answers and its rank runs, before the run is ended."""

LOOK_SECONDS = 5.0
"""Between two looks at how fast each rank computes."""

RETRY_SECONDS = 1.0
"""Between two tries to reach a phone that may be about to come back."""


@dataclass(slots=True)
class Watch:
    """One supervision: who is watched, and what is called when something is to be shown."""

    fleet: Fleet
    state: State
    run: RunFolder
    phones: tuple[str, ...]
    addresses: dict[str, str]
    witnesses: tuple[str, ...] = ()
    """Other phones of the rack: if none of these answers either, it is no phone's doing."""
    on_progress: Callable[[Tracker], None] = lambda _: None
    on_log: Callable[[str], None] = lambda _: None
    on_remark: Callable[[str], None] = lambda _: None
    stop_requested: asyncio.Event = field(default_factory=asyncio.Event)
    tracker: Tracker = field(default_factory=Tracker)
    positions: Mapping[str, Progress] = field(default_factory=dict)
    """Where each rank was at the last look at their speed."""
    blamed: dict[str, probes.Blame] = field(default_factory=dict)
    trouble: asyncio.Event = field(default_factory=asyncio.Event)
    trouble_reason: str | None = None
    regroup_reason: str | None = None
    checkpointed: asyncio.Event = field(default_factory=asyncio.Event)
    heard: float = field(default_factory=time.monotonic)
    log_lines: int = 0
    """Lines of the log that `on_log` was called with."""
    network: Network = field(init=False)

    def __post_init__(self) -> None:
        asked = (*self.phones, *self.witnesses)
        self.network = Network(self.fleet, self.run, asked, lambda text: self.on_remark(text))

    @property
    def head(self) -> str:
        return self.phones[0]

    def regroup(self, reason: str) -> None:
        """End the attempt, though nothing is wrong, for another one with other phones."""
        self.regroup_reason = reason
        self.trouble.set()


async def supervise(watch: Watch) -> Verdict:
    """`follow` a run of one attempt, and conclude it."""
    verdict = await follow(watch)
    conclude(watch.state, watch.run, verdict)
    return verdict


async def follow(watch: Watch) -> Verdict:
    """Follow the newest attempt to its end, its stop, or its failure, and clear up after it.

    Cancelling leaves it as it is: it goes on, unsupervised.
    """
    plan = watch.run.plan()
    tasks = [
        asyncio.create_task(_await_end(watch)),
        asyncio.create_task(watch.stop_requested.wait()),
        asyncio.create_task(watch.trouble.wait()),
    ]
    helpers = [asyncio.create_task(_follow_log(watch))]
    helpers.append(asyncio.create_task(_keep_looks(watch)))
    helpers += [asyncio.create_task(_watch_phone(watch, phone)) for phone in watch.phones]
    if plan is not None:
        helpers.append(asyncio.create_task(_follow_progress(watch)))
        helpers.append(asyncio.create_task(_keep_checkpoints(watch, plan)))
        helpers.append(asyncio.create_task(_watch_silence(watch)))
        helpers.append(asyncio.create_task(_watch_speed(watch, plan)))
    try:
        # A helper that breaks is a bug, and must not pass for silence.
        waiting: set[asyncio.Task[object]] = {*tasks, *helpers}
        while not any(task.done() for task in tasks):
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in waiting if task.done()]:
                waiting.discard(task)
                task.result()
    finally:
        for task in (*tasks, *helpers):
            task.cancel()
        await asyncio.gather(*tasks, *helpers, return_exceptions=True)
    stopped = watch.stop_requested.is_set()
    if not stopped:
        stopped = await _without_network(watch)
    watch.run.record("noticed")  # an end, a stop or a trouble; whose doing, clear_up finds out
    for phone, reason in watch.blamed.items():
        watch.run.record("suspect", phone=phone, reason=str(reason))
        watch.on_remark(str(reason))
    if stopped:
        watch.on_remark(f"stopping {watch.run.name} on {len(watch.phones)} phones")
    verdict = await clear_up(
        watch.fleet,
        watch.state,
        watch.run,
        watch.phones,
        watch.addresses,
        blamed=watch.blamed,
        stopped=stopped,
        trouble=watch.trouble_reason,
        regroup=watch.regroup_reason,
    )
    for line in copies.whole_lines(watch.run.log_file)[watch.log_lines :]:
        watch.on_log(line)
    return verdict


async def _without_network(watch: Watch) -> bool:
    """What the phones say of an attempt that has ended can be heard once this controller has its
    network; True when a stop was asked for meanwhile."""
    waiting = asyncio.create_task(watch.network.was_lost())
    stopping = asyncio.create_task(watch.stop_requested.wait())
    try:
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
        return stopping.done()
    finally:
        waiting.cancel()
        stopping.cancel()
        await asyncio.gather(waiting, stopping, return_exceptions=True)


async def _await_end(watch: Watch) -> None:
    """Return when mpirun has ended on the head phone. A lost connection is made again."""
    while True:
        try:
            lines = watch.fleet.stream(watch.head, onphone.wait_for_end(watch.run.attempt_name))
            async with aclosing(lines):
                async for _ in lines:
                    return
        except PhoneError:
            # Whether the phone is to blame, its own watcher finds out.
            await asyncio.sleep(copies.RECONNECT_PAUSE_SECONDS)


async def _watch_phone(watch: Watch, phone: str) -> None:
    """Blame the phone when its connection breaks and no new one can be made, though this
    controller has its network. One that answers, though only to send us away, may do its work."""
    while True:
        try:
            connection = await watch.fleet.connection(phone)
            await connection.wait_closed()
            watch.run.record("connection-lost", phone=phone)
            await watch.fleet.connection(phone)
        except PhoneError as error:
            if error.reached or await watch.network.was_lost():
                await asyncio.sleep(RETRY_SECONDS)
                continue
            watch.blamed[phone] = error
            watch.trouble.set()
            return


async def _watch_silence(watch: Watch) -> None:
    """Notice a run that is silent for too long, and find the phone that it waits for."""
    silence = Silence()
    while True:
        await asyncio.sleep(1)
        heard = max(watch.heard, watch.network.back)
        silent, tracker = time.monotonic() - heard, watch.tracker
        due = silence.due(silent, tracker.deadline_seconds)
        if due is None:
            continue
        looks, errors = await probes.look(watch.fleet, watch.run.attempt_name, watch.phones)
        if due == "deadline" and errors and await watch.network.was_lost():
            continue
        found = silence.judge(due, looks, errors, tracker.iteration_seconds)
        if found:
            watch.blamed |= found
        elif due == "glance":
            continue
        elif silence.deadlines < PATIENCE_WITH_THE_LIVING:
            watch.run.record("slow", silent_seconds=round(silent))
            watch.on_remark(
                f"no progress for {silent:.0f} s, though every phone answers and its rank runs"
            )
            continue
        else:
            watch.trouble_reason = f"no progress for {silent:.0f} s, though every phone answers"
        watch.trouble.set()
        return


async def _watch_speed(watch: Watch, plan: Plan) -> None:
    """Name the phones that the others wait for."""
    slow = Stragglers(dict(zip(watch.phones, plan.samples_per_rank, strict=True)))
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = await probes.progress(watch.fleet, watch.run.attempt_name, watch.phones)
        watch.positions = now
        for found in slow.take(now):
            heat = (await vitals.look_at(watch.fleet, found.phone)).temperature_celsius
            watch.run.record(
                "straggler",
                phone=found.phone,
                fastest=found.fastest,
                of_fastest=round(found.of_fastest, 2),
                of_own_best=round(found.of_own_best, 2),
                temperature_celsius=heat,
            )
            watch.on_remark(found.sentence(heat))


async def _keep_looks(watch: Watch) -> None:
    """Keep how fast and how warm the phones are, for the report."""
    kept = looks.Kept(watch.run.phones_file)
    await asyncio.sleep(2 * LOOK_SECONDS)  # the ranks' first iterations
    while True:
        seen = await vitals.look(watch.fleet, watch.phones)
        phones = {p: looks.of(seen[p], watch.positions.get(p)) for p in watch.phones}
        kept.add(looks.Look(time.time(), phones))
        await asyncio.sleep(kept.pause_seconds)


async def _follow_progress(watch: Watch) -> None:
    """Copy progress.jsonl line by line."""
    for line in copies.whole_lines(watch.run.progress_file):
        _track(watch, line)
    await copies.follow(
        watch.fleet,
        watch.head,
        f"{onphone.folder(watch.run.attempt_name)}/progress.jsonl",
        watch.run.progress_file,
        lambda line: _take(watch, line),
    )


def _take(watch: Watch, line: str) -> None:
    event = _track(watch, line)
    if event is None:
        return
    watch.heard = time.monotonic()
    watch.on_progress(watch.tracker)
    if isinstance(event, StartEvent) and event.note:
        watch.on_remark(f"{watch.head}: {event.note}")
    if isinstance(event, CheckpointEvent):
        watch.checkpointed.set()
    if isinstance(event, SharesEvent):
        _tell_shares(watch, event)


def _tell_shares(watch: Watch, event: SharesEvent) -> None:
    """The trainer has changed its plan for heat: for the record, and for who looks on."""
    plan = watch.run.plan()
    whole = plan.samples_per_rank if plan is not None else event.samples_per_rank
    samples = dict(zip(watch.phones, event.samples_per_rank, strict=True))
    less = {
        phone: (now, of)
        for (phone, now), of in zip(samples.items(), whole, strict=True)
        if now < of
    }
    watch.run.record(
        "shares", iteration=event.iteration, samples=samples, heated=less, why=event.why
    )
    for phone, why in event.why.items():
        watch.on_remark(f"{phone} from iteration {event.iteration + 1} on: {why}")


def _track(watch: Watch, line: str) -> Event | None:
    """Take one line into account; one that is damaged is noted and passed over."""
    try:
        event = event_from_json(line)
    except FormatError as error:
        watch.run.record("progress-refused", reason=str(error))
        return None
    watch.tracker.take(event)
    return event


async def _keep_checkpoints(watch: Watch, plan: Plan) -> None:
    """Keep the run's newest checkpoints here too.

    Only the newest is fetched: a fast run replaces them on the phone while one is on its way.
    """
    while True:
        await watch.checkpointed.wait()
        watch.checkpointed.clear()
        event = watch.tracker.checkpoint
        name = event.path.rsplit("/", 1)[-1] if event else ""
        if event is None or (watch.run.checkpoints / name).exists():
            continue
        try:
            await checkpoints.fetch(watch.fleet, watch.run, watch.head, name)
        except (PhoneError, FormatError) as error:
            if not watch.checkpointed.is_set():
                watch.run.record(
                    "checkpoint-refused", phone=watch.head, name=name, reason=str(error)
                )
            continue
        watch.run.record("checkpoint", iteration=event.iteration, name=name)
        await asyncio.to_thread(checkpoints.prune, watch.run, plan.checkpoint.keep)


async def _follow_log(watch: Watch) -> None:
    """Copy mpirun.log line by line."""

    def take(line: str) -> None:
        watch.log_lines += 1
        watch.on_log(line)

    watch.log_lines = len(copies.whole_lines(watch.run.log_file))
    remote = f"{onphone.folder(watch.run.attempt_name)}/mpirun.log"
    await copies.follow(watch.fleet, watch.head, remote, watch.run.log_file, take)
