"""Come back to runs that nobody supervises: find out how they are, finish, follow or stop them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from dataclasses import replace

from fleetctl.jobs import onphone, past, probes, runs
from fleetctl.jobs.holding import release_forgotten
from fleetctl.jobs.room import Room
from fleetctl.jobs.runs import RunFolder, Summary, Supervised
from fleetctl.jobs.settle import clear_up, conclude, sweep
from fleetctl.jobs.supervise import Watch
from fleetctl.jobs.verdict import Verdict
from fleetctl.remote import Fault, PhoneError

SUPERVISOR_LIMIT_SECONDS = 60.0
"""How long a supervisor may take to stop its run: TERM, TERM, KILL, sweep, collect."""

WITNESSES = 4
"""Phones that are asked, beside those of the run, whether the controller has a network."""


def watch_of(room: Room, run: RunFolder) -> Watch:
    """A supervision of the run, not begun yet."""
    phones = run.summary().phones
    known = room.state.phones()
    others = [
        phone
        for phone in room.rack.enrolled
        # The silence of one that was away before proves nothing.
        if phone not in phones and (phone in known and known[phone].contact.missed_since is None)
    ]
    witnesses = tuple(others[:WITNESSES])
    return Watch(room.fleet, room.state, run, phones, addresses_of(room, phones), witnesses)


def addresses_of(room: Room, phones: tuple[str, ...]) -> dict[str, str]:
    known = room.rack.phones
    return {phone: known[phone].address for phone in phones if phone in known}


async def refresh_all(room: Room) -> None:
    """Settle every run that has ended while nobody was there."""
    release_forgotten(room.state, room.paths.runs)
    open_runs = [run for run in runs.all_runs(room.paths.runs) if not run.summary().over]
    await asyncio.gather(*(refresh(room, run) for run in open_runs))


async def refresh(room: Room, run: RunFolder) -> Summary:
    """The run's true state, from its phones; a run that has ended is settled."""
    try:
        with run.supervise():
            summary = run.summary()
            if not summary.over:
                await _settle_if_ended(room, run, summary)
    except Supervised:
        pass
    return run.summary()


async def _settle_if_ended(room: Room, run: RunFolder, summary: Summary) -> None:
    """A failed attempt that another one may help against is cleared up only, since that takes
    somebody who stays; everything else that has ended is concluded."""
    if summary.state == "recovering":
        verdict = past.attempts(run.events())[-1].verdict
    else:
        verdict = await _clear_up_if_ended(room, run, summary)
    if verdict is None:
        return
    if past.can_go_on(verdict, trains=run.plan() is not None) and not run.stop_requested:
        room.remark(
            f"{run.name}: attempt {summary.attempts} failed: {verdict.reason}; "
            f"`fleetctl logs -f {run.name}` goes on from its newest checkpoint"
        )
    else:
        conclude(room.state, run, verdict)


async def _clear_up_if_ended(room: Room, run: RunFolder, summary: Summary) -> Verdict | None:
    head = summary.phones[0]
    answer = await room.fleet.run_on(head, onphone.is_alive(run.attempt_name))
    if answer.stdout.strip() == "running":
        return None
    blamed: dict[str, probes.Blame] = {}
    if answer.error is not None:
        if not await _ended_without_head(room, run, summary.phones, answer.error):
            room.remark(f"{run.name} cannot be asked now, so it stays as it is: {answer.error}")
            return None
        blamed = {head: answer.error}
    return await clear_up(
        room.fleet,
        room.state,
        run,
        summary.phones,
        addresses_of(room, summary.phones),
        blamed=blamed,
        stopped=run.stop_requested,
    )


async def _ended_without_head(
    room: Room, run: RunFolder, phones: tuple[str, ...], error: PhoneError
) -> bool:
    """Whether the other phones prove that a run is over whose head phone cannot be asked.

    When none of them answers either, it is this controller that has lost its network.
    """
    if error.fault in (Fault.TIMEOUT, Fault.THROTTLED, Fault.AUTH):
        return False
    others = await room.fleet.run(phones[1:], onphone.look_at_rank(run.attempt_name))
    looks = [probes.read_look(answer.stdout) for answer in others.values() if answer.ok]
    return bool(looks) and not any(look.states for look in looks)


async def stop(room: Room, run: RunFolder) -> Summary:
    """Stop the run on all its phones, through its supervisor if it has one."""
    summary = run.summary()
    if summary.over:
        # Nothing to stop, but strays of a phone that was away may be left.
        swept = await sweep(room.fleet, run.name, run.phones_of_all_attempts())
        return replace(summary, left=swept.left)
    run.record("stop-requested", by=os.getpid())
    if run.supervised:
        await _ask_supervisor(run)
    if not run.summary().over:
        with run.supervise():
            phones = run.summary().phones
            others = [p for p in run.phones_of_all_attempts() if p not in phones]
            elsewhere = await sweep(room.fleet, run.name, others)
            verdict = await clear_up(
                room.fleet,
                room.state,
                run,
                phones,
                addresses_of(room, phones),
                blamed={},
                stopped=True,
            )
            verdict = replace(verdict, left={**elsewhere.left, **verdict.left})
            conclude(room.state, run, verdict)
    return run.summary()


async def _ask_supervisor(run: RunFolder) -> None:
    """What Ctrl-C in its terminal would do; wait until it is through."""
    deadline = time.monotonic() + SUPERVISOR_LIMIT_SECONDS
    asked = None
    while run.supervised and time.monotonic() < deadline:
        pid = run.supervisor()
        if pid is not None and pid != asked:
            asked = pid
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        await asyncio.sleep(0.2)
