"""What a launch would do, in full, without doing any of it: `launch --dry-run`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fleetctl.checks import phone as preflight
from fleetctl.checks.registry import worst
from fleetctl.jobs import mpirun, staging
from fleetctl.jobs.launch import Request
from fleetctl.jobs.room import Prepared, Room
from fleetctl.state.facts import Status
from trainer.formats import Plan, Survey, needed_shards


@dataclass(frozen=True, slots=True)
class Rank:
    """One phone of the run. `samples` of each iteration are its; None where it does not train."""

    rank: int
    phone: str
    address: str
    switch: str | None
    samples: int | None
    preflight: Status
    remarks: tuple[str, ...]
    """What preflight found that is not as it should be."""
    lacking_bytes: int | None
    """Of the data set, to be brought there; None: it would not say, or the job has none."""


@dataclass(frozen=True, slots=True)
class Preview:
    """All of a run before it is one."""

    name: str
    ranks: tuple[Rank, ...]
    spares: tuple[str, ...]
    avoided: Mapping[str, str]
    """Phones left out for their heat -> what tells of it."""
    preflight_seconds: float
    data: str | None
    how: Literal["copied", "broadcast", "not needed"]
    """How the data set would come to the phones that lack it."""
    files: tuple[str, ...]
    host_file: str
    mpirun: tuple[str, ...]
    plan: Plan | None
    time_limit_seconds: float | None
    ends_by: float | None
    """When the time limit would end it, if it began now."""
    waits: str | None
    """Why it would wait in the queue first; all else is told as if it did not."""

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "plan": asdict(self.plan) if self.plan else None}


async def preview(
    room: Room, request: Request, prepared: Prepared, waits: str | None = None
) -> Preview:
    """Put together what `prepared` says, and ask its phones what they lack of the data set."""
    chosen, plan = prepared.chosen, prepared.plan
    outcomes = preflight.judge(preflight.with_common_versions(chosen.facts), room.rack)
    lacking, how = await _lacking(room, plan) if plan is not None else ({}, "not needed")
    samples = plan.samples_per_rank if plan is not None else None
    ranks = []
    for rank, phone in enumerate(chosen.phones):
        found = [outcome.result for outcome in outcomes[phone]]
        ranks.append(
            Rank(
                rank=rank,
                phone=phone,
                address=prepared.addresses[phone],
                switch=room.rack.phones[phone].switch,
                samples=samples[rank] if samples is not None else None,
                preflight=worst(found),
                remarks=tuple(result.message for result in found if result.status != "OK"),
                lacking_bytes=lacking.get(phone),
            )
        )
    limit = request.job.time_limit
    return Preview(
        name=prepared.name,
        ranks=tuple(ranks),
        spares=chosen.spares,
        avoided=chosen.avoided,
        preflight_seconds=round(chosen.preflight_seconds, 1),
        data=plan.data.name if plan is not None else None,
        how=how,
        files=tuple(file.name for file in request.files),
        host_file=mpirun.hostfile(list(prepared.addresses.values())),
        mpirun=prepared.mpirun,
        plan=plan,
        time_limit_seconds=limit,
        ends_by=None if limit is None else time.time() + limit,
        waits=waits,
    )


async def _lacking(
    room: Room, plan: Plan
) -> tuple[Mapping[str, int], Literal["copied", "broadcast", "not needed"]]:
    """Phone -> bytes of the data set that it lacks, and how they would come there."""
    data = await asyncio.to_thread(staging.read_data, room.paths.data, plan.data.name)
    answers = await staging.survey(room.fleet, data, plan.phones, "survey")
    needs = {}
    for rank, phone in enumerate(plan.phones):
        answer = answers[phone]
        if isinstance(answer, Survey):
            files = tuple(shard.file for shard in needed_shards(data.manifest, plan, rank))
            lack = tuple(file for file in files if file not in answer.whole)
            needs[phone] = staging.Need(files, lack, answer.placed, answer.free_bytes)
        else:
            room.remark(f"warning: what {phone} holds of {data.name} is not known: {answer}")
    sizes = {p: sum(data.sizes[file] for file in need.lacking) for p, need in needs.items()}
    if not any(sizes.values()):
        return sizes, "not needed"
    waiting = {phone: need for phone, need in needs.items() if not need.nothing}
    broadcast = plan.data.stage == "all" and staging.is_broadcast(data, waiting)
    return sizes, "broadcast" if broadcast else "copied"
