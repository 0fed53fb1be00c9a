"""Data sets that nobody needs any more leave the phones."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import ClassVar

from fleetctl.errors import ExitCode, FleetError
from fleetctl.jobs import onphone, runs
from fleetctl.jobs.jobfile import JobError, read_job
from fleetctl.jobs.runs import RunFolder
from fleetctl.remote import Fleet, PhoneError
from fleetctl.state import Holding, State


class DataInUse(FleetError):
    """A run that is not over, or waits in the queue, trains on it."""

    exit_code: ClassVar[ExitCode] = ExitCode.HELD


def require_unused(name: str, folder: Path, queued: Collection[str] = ()) -> None:
    """Raises DataInUse. `folder` holds the runs, `queued` are names that the queue knows."""
    going_on = {run.name for run in runs.all_runs(folder) if not run.summary().over}
    users = sorted(run for run in going_on | set(queued) if _data_of(folder / run) == name)
    if users:
        raise DataInUse(
            f"data set {name} is in use by {', '.join(users)}; wait for the end, or "
            f"`fleetctl stop {users[0]}`"
        )


def _data_of(run: Path) -> str | None:
    try:
        job = read_job(RunFolder(run).job_file)
    except (FileNotFoundError, JobError):
        return None
    return job.train.data if job.train else None


async def remove_from_phones(
    fleet: Fleet, state: State, name: str, phones: Sequence[str]
) -> dict[str, PhoneError | str]:
    """Remove all of it, whole and half staged; why where that failed."""
    answers = await fleet.run(phones, onphone.remove_data(name), timeout_seconds=120)
    failed = {
        phone: answer.error or answer.failure(phone)
        for phone, answer in answers.items()
        if answer.error is not None or not answer.ok
    }
    gone = [phone for phone in phones if phone not in failed]
    state.record_holdings(Holding(phone, name, "", 0, 0, time.time()) for phone in gone)
    return failed
