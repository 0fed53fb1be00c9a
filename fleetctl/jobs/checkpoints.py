"""Checkpoints of a run, wherever they lie: verified before anybody trusts them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetctl.errors import FleetError
from fleetctl.jobs import onphone
from fleetctl.jobs.runs import RunFolder
from fleetctl.remote import Fleet, PhoneError
from trainer.formats import CheckpointHeader, FormatError

_HEADER_LIMIT_BYTES = 64 * 1024


class NoCheckpoint(FleetError):
    """A run cannot be resumed."""


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint that is valid, on the controller."""

    path: Path
    header: CheckpointHeader


def verify(path: Path) -> CheckpointHeader:
    """The header of a whole checkpoint. Raises FormatError for a truncated or altered one."""
    digest, length = hashlib.sha256(), 0
    with path.open("rb") as file:
        header = CheckpointHeader.from_json(file.readline(_HEADER_LIMIT_BYTES), path.name)
        while block := file.read(1 << 20):
            digest.update(block)
            length += len(block)
    if length != header.payload_bytes:
        raise FormatError(f"{path.name}: {length} bytes of {header.payload_bytes}: truncated")
    if digest.hexdigest() != header.payload_sha256:
        raise FormatError(f"{path.name}: checksum does not match: corrupt")
    return header


async def fetch(
    fleet: Fleet, run: RunFolder, phone: str, name: str, attempt: str | None = None
) -> Found:
    """Copy a checkpoint of an attempt, the newest one by default, from a phone to the run's
    folder, if it is valid.

    Raises PhoneError or FormatError; what is not valid never bears a checkpoint's name here.
    """
    local = run.checkpoints / name
    incoming = run.checkpoints / f".incoming-{name}"
    remote = f"{onphone.folder(attempt or run.attempt_name)}/checkpoints/{name}"
    try:
        await fleet.get(phone, remote, incoming)
        header = await asyncio.to_thread(verify, incoming)
        incoming.replace(local)
    finally:
        incoming.unlink(missing_ok=True)
    return Found(local, header)


def kept(run: RunFolder) -> list[Found]:
    """Valid checkpoints on the controller, newest first."""
    found = []
    for path in run.checkpoints.glob("[!.]*") if run.checkpoints.exists() else ():
        try:
            found.append(Found(path, verify(path)))
        except (FormatError, OSError):
            continue
    return sorted(found, key=lambda each: each.header.iteration, reverse=True)


def _drop_damaged(run: RunFolder) -> None:
    """Checkpoints that have become corrupt here make room for whole ones of their name."""
    for path in run.checkpoints.glob("[!.]*") if run.checkpoints.exists() else ():
        try:
            verify(path)
        except FormatError as error:
            here = "the controller"
            run.record("checkpoint-refused", phone=here, name=path.name, reason=str(error))
            path.unlink()


def prune(run: RunFolder, keep: int) -> None:
    """Leave the newest `keep` checkpoints on the controller. All are verified, so: in a thread."""
    for old in kept(run)[keep:]:
        old.path.unlink(missing_ok=True)


async def newest(fleet: Fleet, run: RunFolder, phones: Sequence[str]) -> Found:
    """The newest valid checkpoint of all attempts of a run, from the controller or from any of its
    phones.

    One that is truncated or corrupt is passed over, and the run's events say so. Raises
    NoCheckpoint.
    """
    await asyncio.to_thread(_drop_damaged, run)
    here = await asyncio.to_thread(kept, run)
    best = here[0] if here else None
    for iteration, phone, attempt, name in await _on_phones(fleet, run, phones):
        if best is not None and iteration <= best.header.iteration:
            break
        try:
            best = await fetch(fleet, run, phone, name, attempt)
            break
        except (PhoneError, FormatError) as error:
            run.record("checkpoint-refused", phone=phone, name=name, reason=str(error))
    if best is None:
        raise NoCheckpoint(
            f"run {run.name} has no valid checkpoint, neither here nor on a phone that answers; "
            "launch its job anew"
        )
    return best


async def _on_phones(
    fleet: Fleet, run: RunFolder, phones: Sequence[str]
) -> list[tuple[int, str, str, str]]:
    """(iteration, phone, attempt, file) of what phones hold, newest first, by the headers alone."""
    answers = await fleet.run(
        phones,
        f"cd {onphone.RUNS} 2>/dev/null || exit 0; "
        f"for f in {run.name}/checkpoints/* {run.name}.*/checkpoints/*; do "
        '[ -f "$f" ] && printf "%s\\t" "$f" && head -n 1 "$f"; done; true',
        timeout_seconds=20,
    )
    found = []
    for phone, answer in answers.items():
        for line in answer.stdout.splitlines():
            path, tab, text = line.partition("\t")
            try:
                attempt, _, name = path.split("/")
                header = CheckpointHeader.from_json(text, name)
            except (FormatError, ValueError):
                continue
            if tab and onphone.run_of(attempt) == run.name:
                found.append((header.iteration, phone, attempt, name))
    return sorted(found, reverse=True)
