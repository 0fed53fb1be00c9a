"""Carry a job to its end, attempt after attempt.

    with run.supervise():
        verdict = await carry(room, run)

is all that a supervisor does, in a terminal or as a process of its own. Everything that it needs
lies in the run folder, so the one that comes back after a lost one calls the same.

After a failed attempt the phones that are to blame are left out, spare ones take their places or
the plan shrinks, and the next attempt goes on from the newest valid checkpoint.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from fleetctl.errors import FleetError
from fleetctl.jobs import checkpoints, choose, onphone, past, retention, runs, settle
from fleetctl.jobs.attach import watch_of
from fleetctl.jobs.choose import Again, NotEnoughPhones, Wish
from fleetctl.jobs.growth import grow
from fleetctl.jobs.launch import Request, choose_phones, job_of, prepare, write_versions
from fleetctl.jobs.rehearsal import refitted
from fleetctl.jobs.room import Chosen, Prepared, Room
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.start import BrokenOff, begin
from fleetctl.jobs.supervise import Watch, follow
from fleetctl.jobs.verdict import Verdict
from fleetctl.rack.nodesets import fold
from fleetctl.state import Drained, Held, PhoneFacts, derive

CLEAR_SECONDS = 20.0
"""Between two looks at phones that were away, for processes that may be left on them."""

REMOVE_LIMIT_SECONDS = 20.0

WAIT_SECONDS = (0.0, 10.0, 20.0, 40.0, *[60.0] * 28)
"""For phones, when too few are left: one that restarts is back within a minute."""


class GiveUp(Exception):
    """Why there is no further attempt."""


class TooFew(GiveUp):
    """Nothing is wrong with the run: it has waited for phones for too long."""


def undressed(watch: Watch) -> Watch:
    """A supervision that nobody looks at."""
    return watch


async def carry(
    room: Room,
    run: RunFolder,
    *,
    dress: Callable[[Watch], Watch] = undressed,
    stop_requested: asyncio.Event | None = None,
    may_grow: Callable[[Collection[str]], bool] = lambda _: True,
    offered: tuple[str, ...] = (),
    give_back: Callable[[str], None] | None = None,
) -> Verdict:
    """Supervise a run that `launch.launch` has begun to its end, its stop, or a failure that
    nothing helps against, with as many further attempts as that takes; its phones are free
    afterwards.

    `offered`: a further attempt begins with these first, which are kept for it. `give_back`: who
    waits in its place once it has waited for phones for too long, called with the reason; the run
    is not over then, holds nothing, and goes on when `carry` is called again.
    `may_grow`: whether it may take in these phones now; others may wait for them.
    The caller holds `run.supervise()`. `dress` gives the supervision of each attempt its callbacks.
    Once `stop_requested` is set, or a person's wish for it stands in the run's events, the run is
    stopped everywhere. Cancelling leaves the run as it is, to be carried on by another call. Raises
    OSError when this controller's disk is the trouble.
    """
    stop = stop_requested or asyncio.Event()
    carrier = _Carrier(room, run, dress, stop, may_grow, offered, give_back)
    if run.stop_requested:
        carrier.stop.set()
    return await carrier.to_the_end()


async def reattach(room: Room, run: RunFolder) -> Verdict:
    """`carry` a run whose supervisor was lost. Raises Supervised when it was not."""
    with run.supervise():
        return await carry(room, run)


@dataclass(frozen=True, slots=True)
class _Carrier:
    room: Room
    run: RunFolder
    dress: Callable[[Watch], Watch]
    stop: asyncio.Event
    may_grow: Callable[[Collection[str]], bool]
    offered: tuple[str, ...]
    give_back: Callable[[str], None] | None
    trains: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "trains", self.run.plan() is not None)

    async def to_the_end(self) -> Verdict:
        while True:
            verdict = await self._this_attempt()
            if not past.can_go_on(verdict, trains=self.trains):
                return await self._conclude(verdict)
            ended = "ended" if verdict.cause == "interrupted" else "failed"
            self.room.remark(
                f"{self.run.name}: attempt {self.run.attempt} {ended}: {verdict.reason}"
            )
            for event in self.run.attempt_events():
                if event["kind"] == "cooling":
                    self.room.remark(f"{event['phone']} takes no jobs for a while: {event['why']}")
            try:
                going_on = await self._unless_stopped(self._next_attempt(verdict))
            except TooFew as end:
                if self.give_back is None:
                    reason = f"{verdict.reason}; given up: {end}"
                    return await self._conclude(replace(verdict, reason=reason))
                self.room.state.release(self.run.name, why="waits in the queue")
                self.run.record("requeued", reason=str(end))
                self.give_back(str(end))
                return verdict
            except GiveUp as end:
                reason = f"{verdict.reason}; given up: {end}"
                return await self._conclude(replace(verdict, reason=reason))
            if not going_on:
                stopped = Verdict("stopped", self.run.stop_reason, {}, None)
                return await self._conclude(stopped)

    # --- the attempt that is there ---

    async def _this_attempt(self) -> Verdict:
        """How the newest attempt ends, or has ended."""
        attempt = past.attempts(self.run.events())[-1]
        if attempt.verdict is not None:
            return attempt.verdict
        if not attempt.started:
            return await self._end_lost_start(attempt)
        watch = watch_of(self.room, self.run)
        watch.stop_requested = self.stop
        beside = [asyncio.create_task(self._clear_those_who_return(attempt.phones))]
        if self.trains:
            beside.append(asyncio.create_task(self._grow(watch)))
        try:
            verdict = await follow(self.dress(watch))
        finally:
            for task in beside:
                task.cancel()
            endings = await asyncio.gather(*beside, return_exceptions=True)
        for broken in endings:
            if isinstance(broken, Exception):  # a bug, which must not pass for silence
                raise broken
        return verdict

    async def _end_lost_start(self, attempt: past.Attempt) -> Verdict:
        """End what a supervisor that was lost in mid-start may have started."""
        fleet, phones = self.room.fleet, attempt.phones
        await settle.end_mpirun(fleet, self.run.attempt_name, phones[0])
        swept = await settle.sweep(fleet, self.run.name, phones)
        reason = "its supervisor was lost during the start"
        verdict = Verdict("failed", reason, {}, None, swept.left, "interrupted")
        self.run.record("attempt-ended", **verdict.as_json())
        return verdict

    async def _clear_those_who_return(self, in_use: tuple[str, ...]) -> None:
        """Sweep phones that were away when their attempt was ended, once they answer."""
        while True:
            await asyncio.sleep(CLEAR_SECONDS)
            away = [phone for phone in past.left(self.run.events()) if phone not in in_use]
            await self._clear(away)

    async def _clear(self, phones: list[str]) -> dict[str, str]:
        """Sweep; returns where something is still left, with the reason."""
        if not phones:
            return {}
        still = (await settle.sweep(self.room.fleet, self.run.name, phones)).left
        for phone in phones:
            if phone not in still:
                self.run.record("cleared", phone=phone)
        return still

    async def _grow(self, watch: Watch) -> None:
        before = past.attempts(self.run.events())
        try:
            wish, pool = self._wish(before[0])
        except FleetError:  # the rack file has changed, and the job no longer fits it
            return
        await grow(self.room, watch, wish.most or 0, pool, self.may_grow)

    async def _conclude(self, verdict: Verdict) -> Verdict:
        """The run is over: one more look at where something may be left, then its phones go."""
        known = past.left(self.run.events())
        elsewhere = [phone for phone in known if phone not in verdict.left]
        still = await settle.to_the_end(self._clear(elsewhere))
        verdict = replace(verdict, left={**verdict.left, **still})
        settle.conclude(self.room.state, self.run, verdict)
        phones = [p for p in self.run.phones_of_all_attempts() if p not in verdict.left]
        with suppress(OSError):
            await settle.to_the_end(retention.prune_phones(self.room, phones))
        return verdict

    # --- the next one ---

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do it; False when a stop was asked for first, and it was broken off."""
        doing = asyncio.create_task(work)
        stopping = asyncio.create_task(self.stop.wait())
        try:
            await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
                return True
            return False
        finally:
            for task in (doing, stopping):
                task.cancel()
            await settle.to_the_end(_all_done(doing, stopping))

    async def _next_attempt(self, verdict: Verdict) -> None:
        """Bring the next attempt to the point where its mpirun runs. Raises GiveUp."""
        room, run = self.room, self.run
        room.state.release(run.name, phones=verdict.culprits)
        await watch_of(room, run).network.was_lost()
        before = past.attempts(run.events())
        away = past.left(run.events())
        asked = [phone for phone in run.phones_of_all_attempts() if phone not in away]
        found = await self._newest(asked)
        iteration = found.header.iteration if found else 0
        stalled = past.without_progress(before, iteration)
        if stalled >= past.ATTEMPTS_WITHOUT_PROGRESS:
            raise GiveUp(f"{stalled} attempts in a row have come no further")
        await asyncio.sleep(past.pause_seconds(stalled, verdict))
        try:
            try:
                chosen = await self._choose(before)
            except NotEnoughPhones as error:
                raise TooFew(str(error)) from error
            number = run.attempt + 1
            name = runs.name_of_attempt(run.name, number)
            resume = f"resume/{found.path.name}" if found else None
            request = Request(job_of(run), Wish())
            prepared = await asyncio.to_thread(prepare, room, request, chosen, name, resume)
            prepared = self._refitted(prepared)
        except FleetError as error:
            raise GiveUp(str(error)) from error
        run.record(
            "attempt",
            number=number,
            phones=chosen.phones,
            spares=chosen.spares,
            preflight_seconds=round(chosen.preflight_seconds, 3),
            iteration=iteration,
            checkpoint=found.path.name if found else None,
            mpirun=prepared.mpirun,
        )
        run.attempt_folder.mkdir(parents=True, exist_ok=True)
        write_versions(run, chosen)
        if prepared.plan is not None:
            prepared.plan.write(run.plan_file)
        room.remark(
            f"{run.name}: attempt {number} goes on from iteration {iteration} on "
            f"{len(chosen.phones)} phones: {fold(chosen.phones)}"
        )
        try:
            await begin(room, run, prepared, found)
        except BrokenOff as end:
            end.note(room.state, run)
            if not end.told:
                raise end.cause from None
            return
        await self._remove_old(number - 2)

    async def _remove_old(self, newest: int) -> None:
        """Take the folders of the attempts up to that one from phones: this controller has what
        they held, and the one after them is kept as a reserve. Phones that are away keep theirs."""
        if newest >= 1:
            names = [runs.name_of_attempt(self.run.name, n) for n in range(1, newest + 1)]
            await self.room.fleet.run(
                self.run.phones_of_all_attempts(),
                onphone.remove_runs(names),
                timeout_seconds=REMOVE_LIMIT_SECONDS,
            )

    def _refitted(self, prepared: Prepared) -> Prepared:
        """What is left of the run's phones may have larger shares than its first ones had. Raises
        NotRehearsed."""
        plan, need = prepared.plan, self.run.memory()
        if plan is None or need is None:
            return prepared
        fitting = refitted(plan, need, prepared.chosen.free_bytes)
        if fitting.accumulate > plan.accumulate:
            self.room.remark(
                f"{self.run.name}: each phone computes its samples in {fitting.accumulate} parts, "
                "since memory is not enough for them at once"
            )
        return replace(prepared, plan=fitting)

    async def _newest(self, phones: list[str]) -> checkpoints.Found | None:
        """The newest valid checkpoint; None: from the beginning."""
        noted = len(self.run.events())
        try:
            return await checkpoints.newest(self.room.fleet, self.run, phones)
        except checkpoints.NoCheckpoint:
            return None
        finally:
            for event in self.run.events()[noted:]:
                if event["kind"] == "checkpoint-refused":
                    self.room.remark(
                        f"warning: {event['name']} of {event['phone']} not used: {event['reason']}"
                    )

    # --- its phones ---

    async def _choose(self, before: list[past.Attempt]) -> Chosen:
        """The phones of the next attempt, allocated; waits for some while they are too few. Phones
        that have failed are left out, unless there is no other way. Raises NotEnoughPhones."""
        wish, pool = self._wish(before[0])
        avoid = self._avoided(before)
        for pause in WAIT_SECONDS:
            last = before[-1]
            held = (*last.phones, *last.spares, *self.offered)
            keep = [p for p in dict.fromkeys(held) if p not in avoid]
            again = Again(self.run.name, tuple(keep), avoid, pool, self.run.memory())
            try:
                return await self._allocate(wish, again)
            except NotEnoughPhones as error:
                too_few = error
            if pause:
                self.run.record("waiting", seconds=pause, reason=str(too_few))
                self.room.remark(f"{self.run.name} waits for phones: {too_few}")
            await asyncio.sleep(pause)
            avoid = {}
        raise too_few

    def _avoided(self, before: list[past.Attempt]) -> dict[str, str]:
        """Phones that this run has failed on -> why; one that a check has found good since then may
        come back."""
        known, now = self.room.state.phones(), time.time()
        return {
            phone: why
            for phone, why in past.blamed(before).items()
            if derive(known.get(phone, PhoneFacts()), now) != "ready"
        }

    def _wish(self, first: past.Attempt) -> tuple[Wish, tuple[str, ...]]:
        """What the job asks for, or as few phones as it allows; and the only ones that it may have,
        if it names them."""
        job = job_of(self.run)
        asked = choose.read_wish(self.room.rack, job.phones, self.room.state.groups())
        want = asked.most or max(len(self.room.rack.enrolled) - job.spares, 1)
        if job.train is not None:
            want = min(want, job.train.global_batch)
        least = min(job.minimum or math.ceil((asked.most or len(first.phones)) / 2), want)
        pool = (*asked.named, *first.spares) if asked.named else ()
        return Wish(limit=want, minimum=least, spares=job.spares), pool

    async def _allocate(self, wish: Wish, again: Again) -> Chosen:
        """Choose, take, and give back what is no longer needed."""
        state, name = self.room.state, self.run.name
        back = [phone for phone in again.keep if phone in past.left(self.run.events())]
        await self._clear(back)
        while True:
            chosen = await choose_phones(self.room, wish, again=again)
            taken = {*chosen.phones, *chosen.spares}
            try:
                state.allocate(name, taken)
            except (Held, Drained):  # another launch, or a person, was quicker
                continue
            held = {phone for phone, facts in state.phones().items() if facts.run == name}
            state.release(name, phones=held - taken)
            return chosen


async def _all_done(*tasks: asyncio.Task[Any]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
