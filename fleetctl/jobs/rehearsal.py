"""A rehearsal before the launch: torch on the head phone says what a rank will need in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from fleetctl.errors import ExitCode, FleetError
from fleetctl.jobs import onphone
from fleetctl.jobs.planning import is_small, seen_shape
from fleetctl.remote import Fleet
from trainer.formats import (
    KNOWN,
    DataManifest,
    FormatError,
    MemoryNeed,
    Plan,
    PlanError,
    least_parts,
)

LIMIT_SECONDS = 180.0
"""Importing torch and torchvision takes a slow phone half a minute."""


class NotRehearsed(FleetError):
    """The rehearsal refused the plan, or its phones have too little memory for it."""

    exit_code: ClassVar[ExitCode] = ExitCode.PREFLIGHT_REFUSED


class PlanRefused(NotRehearsed):
    """torch will not do what the plan says, whatever the phones."""


_REFUSED_CODE = 2
"""Of trainer.memory, which has told why."""


async def rehearse(
    fleet: Fleet, plan: Plan, release: str | None, data: Path, free_bytes: Mapping[str, int | None]
) -> MemoryNeed | None:
    """What a rank will need; None for what needs no rehearsal. Raises NotRehearsed. `release`: of
    the head phone; `data`: the data sets here."""
    if plan.model.name not in KNOWN:
        return None
    shape = DataManifest.read(data / plan.data.name / "manifest.json").shape
    seen = seen_shape(shape, plan.data.crop_pixels)
    if is_small(plan.model, seen, math.ceil(max(plan.samples_per_rank) / plan.accumulate)):
        return None
    head = plan.phones[0]
    answer = await fleet.run_on(
        head,
        f"PYTHONPATH={onphone.RELEASES}/{release}/python {onphone.PYTHON} -m trainer.memory "
        + "x".join(map(str, seen)),
        stdin=plan.to_json(),
        timeout_seconds=LIMIT_SECONDS,
    )
    if not answer.ok:
        refused = answer.exit_code == _REFUSED_CODE and "No module named" not in answer.stderr
        kind = PlanRefused if refused else NotRehearsed
        raise kind(f"{plan.model.name} cannot be trained so: {answer.failure(head)}")
    try:
        need = MemoryNeed.from_json(answer.stdout, f"rehearsal on {head}")
    except FormatError as error:
        raise NotRehearsed(str(error)) from None
    if reason := too_large(plan, need, free_bytes):
        raise NotRehearsed(reason)
    return need


def with_room(plan: Plan, need: MemoryNeed, free_bytes: Mapping[str, int | None]) -> Plan:
    """The plan with how many samples at a time each phone has memory for, should it take over some
    of a hot phone's. Pure."""
    heat = plan.heat
    fit = tuple(
        most if free is None else max(most, need.samples_that_fit(free))
        for phone, most in zip(plan.phones, heat.most_at_once, strict=False)
        for free in [free_bytes.get(phone)]
    )
    return replace(plan, heat=replace(heat, most_at_once=fit))


def too_small(need: MemoryNeed, free_bytes: Mapping[str, int | None]) -> dict[str, str]:
    """Phones that have too little memory for a rank, whatever its share, each with why. Pure."""
    return {
        phone: f"a rank of this run needs about {need.bytes_for(1) >> 20} MiB of memory, "
        f"{free >> 20} MiB are free"
        for phone, free in free_bytes.items()
        if free is not None and not need.samples_that_fit(free)
    }


def refitted(plan: Plan, need: MemoryNeed, free_bytes: Mapping[str, int | None]) -> Plan:
    """The plan of a further attempt, in which fewer phones may have more samples each: computed in
    as many parts as their memory asks for. Pure. Raises NotRehearsed if no number of parts helps.
    """
    needed = [
        least_parts(samples, max(need.samples_that_fit(free), 1))
        for phone, samples in zip(plan.phones, plan.samples_per_rank, strict=True)
        if (free := free_bytes.get(phone)) is not None
    ]
    parts = max(plan.accumulate, *needed, 1)
    most = (
        () if not plan.heat.most_at_once else [math.ceil(n / parts) for n in plan.samples_per_rank]
    )
    fitting = replace(plan, accumulate=parts, heat=replace(plan.heat, most_at_once=tuple(most)))
    try:
        fitting.check()
    except PlanError as error:
        raise NotRehearsed(f"{too_large(plan, need, free_bytes)}; but {error}") from None
    if reason := too_large(fitting, need, free_bytes):
        raise NotRehearsed(reason)
    return with_room(fitting, need, free_bytes)


def too_large(plan: Plan, need: MemoryNeed, free_bytes: Mapping[str, int | None]) -> str | None:
    """Why the run does not fit into its phones' memory, and what would; None if it does. Pure.

    A phone whose free memory is not known is taken to have enough.
    """
    tight: dict[str, tuple[int, int, int]] = {}
    for phone, samples in zip(plan.phones, plan.samples_per_rank, strict=True):
        free, part = free_bytes.get(phone), math.ceil(samples / plan.accumulate)
        if free is not None and need.bytes_for(part) > free:
            tight[phone] = (need.samples_that_fit(free), part, free)
    if not tight:
        return None
    phone = min(tight, key=lambda name: tight[name][0])
    fit, part, free = tight[phone]
    said = (
        f"{plan.model.name} with {part} samples at a time needs about "
        f"{need.bytes_for(part) >> 20} MiB on each phone; {phone} has {free >> 20} MiB free"
        + (f" ({len(tight)} phones have too little)" if len(tight) > 1 else "")
    )
    if not fit:
        return f"{said}, too little for the model alone; take a smaller model, or leave it out"
    parts = least_parts(max(plan.samples_per_rank), fit)
    return (
        f"{said}. {fit} samples at a time fit: set `global_batch` to at most "
        f"{fit * len(plan.phones)}, or `accumulate` to {parts}"
    )
