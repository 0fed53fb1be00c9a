"""From benches to the rack's profile: the newest measurement of each kind wins."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from pathlib import Path

from fleetctl.bench.document import Bench, CollectivesBench, ComputeBench
from trainer.formats import (
    ComputeProfile,
    FormatError,
    LinkProfile,
    MemoryProfile,
    RackProfile,
)

PROFILE_FILE = "profile.json"


def of_bench(bench: Bench, run: str) -> RackProfile:
    """What one bench adds; empty for those that say nothing of phones by themselves."""
    where = bench.provenance
    profile = RackProfile(where.rack)
    match bench:
        case CollectivesBench():
            most = max((len(launch.phones) for launch in bench.launches), default=0)
            links = tuple(
                LinkProfile(
                    method=each.method,
                    alpha_seconds=each.fit.alpha_seconds,
                    bytes_per_second=each.fit.bytes_per_second,
                    error=each.fit.error,
                    phones=most,
                    time=where.time,
                    run=run,
                )
                for each in bench.fits
            )
            return replace(profile, links=links)
        case ComputeBench():
            return replace(profile, compute=_compute(bench, run), memory=_memory(bench, run))
    return profile


def _compute(bench: ComputeBench, run: str) -> tuple[ComputeProfile, ...]:
    return tuple(
        ComputeProfile(
            phone=each.phone,
            device=each.device,
            model=time.case.model,
            input=time.case.input,
            batch=time.case.batch,
            threads=time.case.threads,
            forward_seconds=time.forward_seconds,
            backward_seconds=time.backward_seconds,
            step_seconds=time.step_seconds,
            gradient_bytes=time.gradient_bytes,
            time=bench.provenance.time,
            run=run,
        )
        for each in bench.phones
        for time in each.times
    )


def _memory(bench: ComputeBench, run: str) -> tuple[MemoryProfile, ...]:
    return tuple(
        MemoryProfile(
            phone=each.phone,
            device=each.device,
            model=found.model,
            input=found.input,
            largest_batch=found.batch,
            peak_bytes=found.peak_bytes,
            bounded=found.bounded,
            time=bench.provenance.time,
            run=run,
        )
        for each in bench.phones
        for found in each.largest
    )


def merge(old: RackProfile, new: RackProfile) -> RackProfile:
    """`new` takes the place of what `old` says about the same thing."""
    return RackProfile(
        new.rack,
        links=_newest((*old.links, *new.links), lambda link: link.method),
        compute=_newest((*old.compute, *new.compute), lambda c: (*_what(c), c.batch, c.threads)),
        memory=_newest((*old.memory, *new.memory), _what),
    )


def _what(entry: ComputeProfile | MemoryProfile) -> tuple[Hashable, ...]:
    arguments = tuple(sorted((name, str(value)) for name, value in entry.model.args.items()))
    return entry.phone, entry.device, entry.model.name, arguments, entry.input


def _newest[Entry](entries: Iterable[Entry], key: Callable[[Entry], Hashable]) -> tuple[Entry, ...]:
    """The last entry of each key, in the order in which keys first appeared."""
    return tuple({key(entry): entry for entry in entries}.values())


def keep(bench: Bench, folder: Path, rack_folder: Path) -> None:
    """Write profile.json of the bench beside it, and merge it into the rack's."""
    found = of_bench(bench, folder.name)
    if not (found.links or found.compute or found.memory):
        return
    found.write(folder / PROFILE_FILE)
    path = rack_folder / PROFILE_FILE
    merge(read(path, found.rack), found).write(path)


def read(path: Path, rack: str) -> RackProfile:
    """The rack's profile; an empty one where there is none yet, or one of another version."""
    try:
        return RackProfile.read(path)
    except (FileNotFoundError, FormatError):
        return RackProfile(rack)
