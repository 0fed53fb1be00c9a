"""Bring the data set to the phones that lack it, and the run folder to all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleetctl.errors import FleetError
from fleetctl.jobs import onphone
from fleetctl.remote import Fleet
from trainer.formats import DataManifest, FormatError

TRANSFER_LIMIT_SECONDS = 1800.0
"""A data set of some gigabytes over the slowest link that is still worth having."""


class StagingError(FleetError):
    """Data or run files could not be brought to a phone."""


def read_data(data: Path, name: str) -> DataManifest:
    """The manifest of a data set on the controller, its shards verified. Raises StagingError."""
    cure = f"make it anew with `fleetctl data add {name}`"
    try:
        manifest = DataManifest.read(data / name / "manifest.json")
        for shard in (*manifest.train, *manifest.test):
            path = data / name / shard.file
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != shard.sha256:
                    raise StagingError(f"{path} is corrupt: its checksum does not match; {cure}")
    except FileNotFoundError as error:
        raise StagingError(f"data set {name!r} lacks {error.filename}; {cure}") from None
    except FormatError as error:
        raise StagingError(f"{error}; {cure}") from None
    return manifest


async def lacking(fleet: Fleet, data: Path, name: str, phones: Sequence[str]) -> list[str]:
    """Phones without a whole copy of the data set: other manifest, missing or damaged shard."""
    manifest = read_data(data, name)
    own = hashlib.sha256((data / name / "manifest.json").read_bytes()).hexdigest()
    sums = [f"{own}  manifest.json"]
    sums += [f"{shard.sha256}  {shard.file}" for shard in (*manifest.train, *manifest.test)]
    answers = await fleet.run(
        phones,
        f"cd {onphone.DATA}/{name} 2>/dev/null && sha256sum -c --status -",
        stdin="\n".join(sums) + "\n",
        timeout_seconds=TRANSFER_LIMIT_SECONDS,
    )
    for phone, answer in answers.items():
        if answer.error is not None:
            raise StagingError(answer.failure(phone))
    return [phone for phone, answer in answers.items() if not answer.ok]


async def stage_data(fleet: Fleet, data: Path, name: str, phones: Sequence[str]) -> list[str]:
    """Copy the data set to the phones that lack it; returns them. It appears there whole."""
    need = await lacking(fleet, data, name, phones)
    outcome = await fleet.put(
        need, data / name, f"{onphone.DATA}/{name}", timeout_seconds=TRANSFER_LIMIT_SECONDS
    )
    _require_all(outcome)
    return need


async def stage_folder(
    fleet: Fleet, local: Path, run: str, phones: Sequence[str], *, timeout_seconds: float = 120
) -> None:
    """Bring the run folder to every phone; an old one of that name goes."""
    _require_all(
        await fleet.put(phones, local, onphone.folder(run), timeout_seconds=timeout_seconds)
    )


def _require_all(outcome: Mapping[str, Exception | None]) -> None:
    if failed := [str(error) for error in outcome.values() if error is not None]:
        raise StagingError("; ".join(failed))
