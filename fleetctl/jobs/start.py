"""Start an attempt that is prepared: data and files to its phones, then mpirun on the head."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fleetctl.errors import FleetError
from fleetctl.jobs import mpirun, onphone, settle, staging
from fleetctl.jobs.checkpoints import Found
from fleetctl.jobs.cooling import cool_down
from fleetctl.jobs.room import Prepared, Room
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.verdict import Cause, Verdict
from fleetctl.rack.nodesets import fold
from fleetctl.state import State
from trainer.formats import Plan

START_LIMIT_SECONDS = 30.0


class StartError(FleetError):
    """mpirun could not be started on the head phone, which is the culprit: nothing of the job has
    run there yet."""

    def __init__(self, message: str, culprits: Mapping[str, str]) -> None:
        super().__init__(message)
        self.culprits = dict(culprits)


class BrokenOff(Exception):
    """A start came to nothing by `cause`, and nothing of it goes on but on the phones in `left`."""

    def __init__(self, cause: BaseException, started: bool, left: Mapping[str, str]) -> None:
        super().__init__("the start was broken off")
        self.cause, self.started, self.left = cause, started, dict(left)
        self.told = isinstance(cause, FleetError)
        """Whether the cause is a failure, not an interrupt."""
        when = "during" if started else "before"
        self.reason = str(cause) if self.told else f"interrupted {when} the start"
        self.culprits = (
            cause.culprits if isinstance(cause, StartError | staging.StagingError) else {}
        )
        """Phones that broke it off, each with the reason."""

    def note(self, state: State, run: RunFolder) -> None:
        """Write it down as the end of the newest attempt: another one may help."""
        cause: Cause = "phones" if self.culprits else "unknown" if self.told else "interrupted"
        verdict = Verdict("failed", self.reason, self.culprits, None, self.left, cause)
        run.record("attempt-ended", **verdict.as_json())
        cool_down(state, run, self.culprits)


async def begin(room: Room, run: RunFolder, prepared: Prepared, found: Found | None) -> None:
    """Bring the newest attempt of the run to the point where mpirun runs. Raises BrokenOff, after
    which the phones that broke it off are suspect."""
    started, left = False, {}
    try:
        await _stage(room, run, prepared, found)
        started = True
        await _start(room, run, prepared)
    except BaseException as error:
        if started:
            left = await settle.to_the_end(_end_start(room, run, prepared.chosen.phones))
        for why in left.values():
            room.remark(f"processes may be left: {why}")
        end = BrokenOff(error, started, left)
        for phone, reason in end.culprits.items():
            why = f"{reason} (at the start of run {run.name})"
            room.state.record_health(phone, "CRITICAL", why)
        raise end from error


async def _end_start(room: Room, run: RunFolder, phones: Sequence[str]) -> dict[str, str]:
    """End a start that was broken off: mpirun may run by now. Returns where some may be left."""
    await settle.end_mpirun(room.fleet, run.attempt_name, phones[0])
    return (await settle.sweep(room.fleet, run.name, phones)).left


async def _stage(room: Room, run: RunFolder, prepared: Prepared, found: Found | None) -> None:
    """Data to the phones that lack it, the run folder to all, the checkpoint to who reads it."""
    phones = prepared.chosen.phones
    if prepared.plan is not None:
        release = prepared.chosen.facts[phones[0]].release or ""
        stage_room = staging.StageRoom(
            room.fleet, room.rack, room.state, room.paths.data, release, room.remark
        )
        spares = prepared.chosen.spares
        staged = await staging.stage_data(stage_room, _with_spares(prepared.plan, spares))
        data = prepared.plan.data.name
        run.record(
            "staged",
            data=data,
            sent_to=staged.sent_to,
            sent_bytes=staged.sent_bytes,
            how=staged.how,
            seconds=round(staged.seconds, 1),
            held_by=list(phones),
        )
        if staged.sent_to:
            room.remark(f"data set {data} {staged.how} to {fold(staged.sent_to)}")
    stage = run.path / ".stage"
    shutil.rmtree(stage, ignore_errors=True)  # of a supervisor that was killed here
    stage.mkdir()
    try:
        _fill_stage(stage, run, prepared)
        target = onphone.folder(run.attempt_name)
        await staging.stage_folder(room.fleet, stage, target, phones)
    finally:
        shutil.rmtree(stage)
    if found is not None:
        # The trainer's first rank shares it; a program of a person's own may read it anywhere.
        readers = phones[:1] if prepared.trainer_alone else phones
        place = f"{target}/resume/{found.path.name}"
        await staging.stage_folder(room.fleet, found.path, place, readers)


def _with_spares(plan: Plan, spares: Sequence[str]) -> Plan:
    """For the data alone: a spare that holds it begins without waiting for it. Which share of the
    samples one would need is not known before it takes a place."""
    if not spares or plan.data.stage == "share":
        return plan
    return replace(
        plan,
        phones=(*plan.phones, *spares),
        samples_per_rank=(*plan.samples_per_rank, *[0] * len(spares)),
        switches=(),
    )


def _fill_stage(stage: Path, run: RunFolder, prepared: Prepared) -> None:
    phones, addresses = prepared.chosen.phones, [*prepared.addresses.values()]
    interfaces = [prepared.chosen.facts[phone].interface for phone in phones]
    (stage / "hostfile").write_text(mpirun.hostfile(addresses))
    start = onphone.start_script(run.attempt_name, prepared.mpirun, prepared.series, addresses[0])
    (stage / "start.sh").write_text(start)
    script = onphone.rank_script(
        run.attempt_name, phones, addresses, interfaces, told=prepared.trainer_alone
    )
    (stage / "rank.sh").write_text(script)
    if prepared.plan is not None:
        shutil.copy2(run.plan_file, stage / "plan.json")
    files = run.path / "files"
    if files.exists():
        shutil.copytree(files, stage, dirs_exist_ok=True)


async def _start(room: Room, run: RunFolder, prepared: Prepared) -> None:
    head = prepared.chosen.phones[0]
    answer = await room.fleet.run_on(
        head, onphone.start_command(run.attempt_name), timeout_seconds=START_LIMIT_SECONDS
    )
    if not answer.ok:
        why = answer.failure(head)
        raise StartError(f"mpirun did not start on the head phone: {why}", {head: why})
    run.record("started", head=head, pid=int(answer.stdout))
