"""Finish a run's bookkeeping: sweep, collect, judge, release. Safe to repeat."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from fleetctl.errors import FleetError
from fleetctl.jobs import checkpoints, onphone
from fleetctl.jobs.cooling import cool_down
from fleetctl.jobs.jobfile import read_job
from fleetctl.jobs.probes import Blame
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.verdict import Evidence, Verdict, judge
from fleetctl.remote import Fault, Fleet, PhoneError
from fleetctl.state import State
from trainer.formats import Final, FormatError, final_name

END_LIMIT_SECONDS = 15.0

LATELY_SECONDS = 60.0
"""mpirun notices a phone that restarts within 20 s: a connection that broke longer ago, and was
made anew, did not end the run."""

FULL_KIBIBYTES = 256
"""Less free storage than this is none: a file system keeps some blocks to itself."""


async def settle(
    fleet: Fleet,
    state: State,
    run: RunFolder,
    phones: Sequence[str],
    addresses: Mapping[str, str],
    *,
    blamed: Mapping[str, Blame],
    stopped: bool = False,
    trouble: str | None = None,
) -> Verdict:
    """`clear_up` the attempt, and `conclude` the run with it."""
    verdict = await clear_up(
        fleet, state, run, phones, addresses, blamed=blamed, stopped=stopped, trouble=trouble
    )
    conclude(state, run, verdict)
    return verdict


def conclude(state: State, run: RunFolder, verdict: Verdict) -> None:
    """The run is over: its phones are free."""
    state.release(run.name)
    run.record(
        "ended",
        state=verdict.state,
        reason=verdict.reason,
        test_accuracy=verdict.test_accuracy,
        mpirun_code=verdict.mpirun_code,
        left=dict(verdict.left),
    )


async def clear_up(
    fleet: Fleet,
    state: State,
    run: RunFolder,
    phones: Sequence[str],
    addresses: Mapping[str, str],
    *,
    blamed: Mapping[str, Blame],
    stopped: bool = False,
    trouble: str | None = None,
    regroup: str | None = None,
) -> Verdict:
    """End what is left of the newest attempt on its phones and write down how it ended; the run
    keeps its phones.

    `blamed`: phones that are known to be out of order; those that do not answer are not asked
    again. `trouble`: why the supervision ended the attempt, when no phone is to blame; `regroup`:
    when nothing was wrong at all.
    """
    errors = {phone: why for phone, why in blamed.items() if isinstance(why, PhoneError)}
    asked = [phone for phone in phones if phone not in errors]
    head = phones[0]
    if head in asked:
        await end_mpirun(fleet, run.attempt_name, head)
    swept = await sweep(fleet, run.name, asked)
    errors |= swept.unreachable
    reachable = [phone for phone in phones if phone not in errors]
    finals = await _collect_finals(fleet, run, phones, reachable)
    code = None
    if head in reachable:
        code = await _collect_from_head(fleet, run, head)
    plan = run.plan()
    done = [rank for rank, final in finals.items() if final.status == "done"]
    # One that answers, though only to send us away, may be as well as it was.
    away = {phone: str(error) for phone, error in errors.items() if not error.reached}
    unsure = {phone: str(error) for phone, error in errors.items() if error.reached}
    evidence = Evidence(
        phones=phones,
        addresses=addresses,
        finals=finals,
        unreachable=away,
        blamed={phone: why for phone, why in blamed.items() if isinstance(why, str)},
        unswept={**swept.unswept, **unsure},
        mpirun_code=code,
        log=run.log_file.read_text(errors="replace") if run.log_file.exists() else "",
        stopped=stopped,
        stop_reason=run.stop_reason,
        command=_command(run),
        came_back=_came_back(run),
        one_model=plan is not None and plan.exchange.enabled,
        full=frozenset() if len(done) == len(phones) else await _full(fleet, reachable),
    )
    verdict = judge(evidence)
    if trouble and verdict.state == "failed" and not verdict.culprits:
        reason = "; ".join([trouble, *swept.unswept.values()])
        verdict = replace(verdict, reason=reason, cause="unknown")
    if regroup and verdict.state == "failed" and not verdict.culprits:
        verdict = replace(verdict, reason=regroup, cause="interrupted")
    for phone, reason in verdict.culprits.items():
        state.record_health(phone, "CRITICAL", f"{reason} (in run {run.name})")
    answered = {p: errors[p].reached if p in errors else True for p in phones}
    state.record_contact({phone: yes for phone, yes in answered.items() if yes is not None})
    run.record("attempt-ended", **verdict.as_json())
    cool_down(state, run, verdict.culprits)
    return verdict


def _came_back(run: RunFolder) -> set[str]:
    """Phones whose connection broke shortly before the end was noticed, but for breaks that were
    this controller's own doing."""
    found: dict[str, float] = {}
    end = time.time()
    for event in run.attempt_events():
        match event["kind"]:
            case "connection-lost":
                found[event["phone"]] = event["time"]
            case "back":
                found.clear()
            case "noticed":
                end = event["time"]
    return {phone for phone, moment in found.items() if end - moment <= LATELY_SECONDS}


def _command(run: RunFolder) -> str:
    """The program of a person's own that the run's ranks run, if any."""
    try:
        return shlex.join(read_job(run.job_file).command or [])
    except (FleetError, OSError):
        return ""


async def _full(fleet: Fleet, phones: Sequence[str]) -> frozenset[str]:
    """Phones without free storage, on which nothing can be written down any more."""
    answers = await fleet.run(phones, onphone.free_kibibytes(), timeout_seconds=10)
    free = {p: answer.stdout.strip() for p, answer in answers.items() if answer.ok}
    return frozenset(p for p, said in free.items() if said.isdigit() and int(said) < FULL_KIBIBYTES)


@dataclass(frozen=True, slots=True)
class Swept:
    """Where processes of a run may be left: phones that did not answer, and those that would not
    end, each with the reason."""

    unreachable: Mapping[str, PhoneError]
    unswept: Mapping[str, str]

    @property
    def left(self) -> dict[str, str]:
        return {**{p: str(error) for p, error in self.unreachable.items()}, **self.unswept}


async def end_mpirun(fleet: Fleet, run: str, head: str, *, stage: bool = False) -> None:
    """mpirun first: it ends its ranks itself."""
    command = onphone.end_mpirun(run, stage=stage)
    await fleet.run_on(head, command, timeout_seconds=END_LIMIT_SECONDS)


async def to_the_end[Outcome](work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Await work that no further Ctrl-C breaks off; it has limits of its own."""
    task = asyncio.create_task(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


async def sweep(fleet: Fleet, run: str, phones: Sequence[str]) -> Swept:
    """End every process of the run on the phones."""
    command = onphone.sweep(run)
    answers = await fleet.run(phones, command, timeout_seconds=END_LIMIT_SECONDS)
    # A connection that broke proves nothing yet; one that cannot be made anew does.
    lost = [p for p, answer in answers.items() if answer.error and answer.error.fault is Fault.LOST]
    answers |= await fleet.run(lost, command, timeout_seconds=END_LIMIT_SECONDS)
    unswept = {
        phone: f"{phone} still has processes of it that do not end ({', '.join(left)}); restart it"
        for phone, answer in answers.items()
        if answer.error is None and (left := answer.stdout.split())
    }
    errors = {phone: answer.error for phone, answer in answers.items() if answer.error is not None}
    return Swept(errors, unswept)


async def _collect_finals(
    fleet: Fleet, run: RunFolder, phones: Sequence[str], reachable: Sequence[str]
) -> dict[int, Final]:
    """Every rank's own final record, from its own phone."""
    answers = await fleet.run(reachable, onphone.read_finals(run.attempt_name), timeout_seconds=10)
    run.finals.mkdir(exist_ok=True)
    name = run.attempt_name
    finals: dict[int, Final] = {}
    for phone, answer in answers.items():
        if not answer.stdout.strip():
            continue
        try:
            final = Final.from_json(answer.stdout, f"final record of {phone}")
            if (final.run, final.phone, phones[final.rank]) != (name, phone, phone):
                raise FormatError(f"final record of {phone} is of {final.phone}, run {final.run}")
        except (FormatError, IndexError) as error:
            run.record("final-refused", phone=phone, reason=str(error))
            continue
        finals[final.rank] = final
        final.write(run.finals / final_name(final.rank))
    return finals


async def _collect_from_head(fleet: Fleet, run: RunFolder, head: str) -> int | None:
    """The log, the progress and the newest checkpoints; returns mpirun's exit code."""
    folder = onphone.folder(run.attempt_name)
    for name, local in (("mpirun.log", run.log_file), ("progress.jsonl", run.progress_file)):
        try:
            await fleet.get(head, f"{folder}/{name}", local)
        except PhoneError as error:
            if run.plan_file.exists() or name == "mpirun.log":
                run.record("not-fetched", phone=head, file=name, reason=str(error))
    plan = run.plan()
    if plan is not None:
        await _collect_checkpoints(fleet, run, head, plan.checkpoint.keep)
    answer = await fleet.run_on(head, f"cat {folder}/mpirun.rc")
    return int(answer.stdout) if answer.ok and answer.stdout.strip().isdigit() else None


async def _collect_checkpoints(fleet: Fleet, run: RunFolder, head: str, keep: int) -> None:
    command = f"cd {onphone.folder(run.attempt_name)}/checkpoints 2>/dev/null && ls"
    names = (await fleet.run_on(head, command)).stdout.split()
    run.checkpoints.mkdir(exist_ok=True)
    for name in names:
        if not (run.checkpoints / name).exists():
            try:
                await checkpoints.fetch(fleet, run, head, name)
            except (PhoneError, FormatError) as error:
                run.record("checkpoint-refused", phone=head, name=name, reason=str(error))
    await asyncio.to_thread(checkpoints.prune, run, keep)
