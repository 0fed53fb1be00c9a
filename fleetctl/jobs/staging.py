"""Bring the data set to the phones that lack it, and the run folder to all of them."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fleetctl.errors import FleetError
from fleetctl.jobs import onphone
from fleetctl.rack import Rack
from fleetctl.rack.nodesets import fold
from fleetctl.remote import Fleet, PhoneError, Result
from fleetctl.state import Holding, State
from trainer.formats import (
    MANIFEST,
    DataManifest,
    FormatError,
    Plan,
    StoreOrder,
    Survey,
    needed_shards,
    verify,
)

TRANSFER_LIMIT_SECONDS = 1800.0
SLOWEST_BYTES_PER_SECOND = 1e6
"""A data set may take this long, or longer over the slowest link that is still worth having."""

BROADCAST_FROM_BYTES = 256 << 20
"""Broadcast along the phones where that spares the controller's link so much: mpirun takes some
seconds to start, in which a gigabit link carries twice that."""


class StagingError(FleetError):
    """Data or run files could not be brought to a phone. `culprits`: phones that broke it off,
    each with the reason."""

    def __init__(self, message: str, culprits: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.culprits = dict(culprits or {})


@dataclass(frozen=True, slots=True)
class StageRoom:
    """What staging works with. `data` is the rack's folder of data sets."""

    fleet: Fleet
    rack: Rack
    state: State
    data: Path
    release: str
    remark: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Staged:
    """Which phones got something, how much in all, and how."""

    sent_to: tuple[str, ...]
    sent_bytes: int
    how: Literal["copied", "broadcast"]
    seconds: float


@dataclass(frozen=True, slots=True)
class DataOnController:
    """A data set that is whole here. `sizes`: file -> bytes."""

    folder: Path
    manifest: DataManifest
    text: str
    sizes: Mapping[str, int]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def sha256(self) -> str:
        """Of the manifest: it names this version of the data set."""
        return _sha256(self.text)

    def order(self, files: Sequence[str] = ()) -> StoreOrder:
        return StoreOrder(self.name, self.text, tuple(files))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def version_of(folder: Path) -> str | None:
    """The checksum that names the version of the data set in a folder, if there is one."""
    try:
        return _sha256((folder / MANIFEST).read_text())
    except (OSError, UnicodeDecodeError):
        return None


def read_data(data: Path, name: str) -> DataOnController:
    """A data set on the controller; a shard that changed is verified, which may take its time: in a
    thread, where connections are kept. Raises StagingError."""
    folder, cure = data / name, f"make it anew with `fleetctl data add {name}`"
    try:
        text = (folder / MANIFEST).read_text()
        manifest = DataManifest.from_json(text, str(folder / MANIFEST))
    except FileNotFoundError as error:
        raise StagingError(f"data set {name!r} lacks {error.filename}; {cure}") from None
    except FormatError as error:
        raise StagingError(f"{error}; {cure}") from None
    found = verify(folder, manifest.shards)
    for file in found.missing:
        raise StagingError(f"data set {name!r} lacks {folder / file}; {cure}")
    for file in found.corrupt:
        raise StagingError(f"{folder / file} is corrupt: its checksum does not match; {cure}")
    return DataOnController(folder, manifest, text, found.whole)


@dataclass(frozen=True, slots=True)
class Need:
    """What a phone lacks for a run. `files` it must hold, `lacking` of them are not there yet;
    `placed`: these lie where a run reads them."""

    files: tuple[str, ...]
    lacking: tuple[str, ...]
    placed: bool
    free_bytes: int

    @property
    def nothing(self) -> bool:
        return self.placed and not self.lacking


async def survey(
    fleet: Fleet, data: DataOnController, phones: Sequence[str], what: str
) -> dict[str, Survey | PhoneError | str]:
    """What phones hold of a data set; or why one does not say. `what` is trainer.store's word."""
    command = onphone.store(what)
    answers = await fleet.run(
        phones, command, stdin=data.order().to_json(), timeout_seconds=limit_seconds(data)
    )
    found: dict[str, Survey | PhoneError | str] = {}
    for phone, answer in answers.items():
        if answer.error is not None or not answer.ok:
            found[phone] = answer.error or _explain(phone, answer)
            continue
        try:
            found[phone] = Survey.from_json(answer.stdout, phone)
        except FormatError as error:
            found[phone] = str(error)
    return found


def _explain(phone: str, answer: Result) -> str:
    if "No module named" in answer.stderr:
        return (
            f"{phone}: its release is older than this fleetctl; install it with site.yml -t release"
        )
    return answer.failure(phone)


async def needs(fleet: Fleet, data: DataOnController, plan: Plan) -> dict[str, Need]:
    """What each phone of a plan needs and lacks. Raises StagingError."""
    answers = await survey(fleet, data, plan.phones, "prepare")
    silent = {phone: str(why) for phone, why in answers.items() if not isinstance(why, Survey)}
    if silent:
        failed = {phone: answers[phone] for phone in silent}
        raise StagingError("; ".join(silent.values()), _culprits(failed, len(plan.phones)))
    found = {}
    for rank, phone in enumerate(plan.phones):
        answer = answers[phone]
        assert isinstance(answer, Survey)  # noqa: S101
        files = tuple(shard.file for shard in needed_shards(data.manifest, plan, rank))
        lacking = tuple(file for file in files if file not in answer.whole)
        found[phone] = Need(files, lacking, answer.placed, answer.free_bytes)
    return found


def _culprits(failed: Mapping[str, object], of_phones: int) -> dict[str, str]:
    """Those of the phones that failed without which staging may succeed. One that does not answer
    is to blame; what most of them say alike is the data set's doing, or the release's."""
    few = 2 * len(failed) <= of_phones
    return {phone: str(why) for phone, why in failed.items() if few or isinstance(why, PhoneError)}


def require_room(data: DataOnController, needs: Mapping[str, Need], spare_bytes: int) -> None:
    """Raise StagingError that names every phone whose disk is too small, `spare_bytes` of which
    must stay free for checkpoints and logs. `needs`: of all phones of the plan."""
    small = {}
    for phone, need in needs.items():
        wanted = sum(data.sizes[file] for file in need.lacking)
        if wanted and wanted + spare_bytes > need.free_bytes:
            small[phone] = (
                f"{phone}: {wanted:,} bytes of data set {data.name} are to come and {spare_bytes:,}"
                f" must stay free, but only {need.free_bytes:,} are free"
            )
    if small:
        raise StagingError(
            "; ".join(small.values())
            + "; remove old data sets and runs there, leave these phones out, or let each phone "
            "hold its share only (`stage: share`)",
            _culprits(small, len(needs)),
        )


async def stage_data(room: StageRoom, plan: Plan) -> Staged:
    """Bring what is lacking to the phones of a plan, and note who holds what.

    It appears there whole; until then an older version stays. Raises StagingError, after which
    what has arrived is kept for the next time.
    """
    began = time.monotonic()
    data = await asyncio.to_thread(read_data, room.data, plan.data.name)
    try:
        found = await needs(room.fleet, data, plan)
        waiting = {phone: need for phone, need in found.items() if not need.nothing}
        how: Literal["copied", "broadcast"] = "copied"
        if waiting:
            require_room(data, found, room.rack.thresholds.min_free_disk_bytes)
            if plan.data.stage == "all" and is_broadcast(data, waiting):
                from fleetctl.jobs.broadcast import broadcast

                how = "broadcast"
                await broadcast(room, data, plan.run, waiting)
            else:
                await _copy(room, data, waiting)
                await _place(room, data, waiting, len(plan.phones))
    except StagingError as error:
        for phone, why in error.culprits.items():
            room.state.record_health(phone, "CRITICAL", f"{why} (while data was brought to it)")
        raise
    _note(room.state, data, {phone: need.files for phone, need in found.items()})
    sent_bytes = sum(data.sizes[file] for need in waiting.values() for file in need.lacking)
    return Staged(tuple(waiting), sent_bytes, how, time.monotonic() - began)


def is_broadcast(data: DataOnController, waiting: Mapping[str, Need]) -> bool:
    """Whether a broadcast spares the controller enough copies. Pure."""
    copies = sum(data.sizes[file] for need in waiting.values() for file in need.lacking)
    once = sum(data.sizes[file] for file in {f for need in waiting.values() for f in need.lacking})
    return copies - once >= BROADCAST_FROM_BYTES


async def _copy(room: StageRoom, data: DataOnController, waiting: Mapping[str, Need]) -> None:
    """From the controller to each phone: what it lacks."""
    folder = onphone.data_part(data.name, data.sha256)
    # All copies leave by the controller's one link.
    copies_bytes = sum(data.sizes[file] for need in waiting.values() for file in need.lacking)
    limit = limit_seconds(data, copies_bytes)

    async def one(phone: str, need: Need) -> PhoneError | None:
        files = [data.folder / file for file in need.lacking]
        return await room.fleet.put_each(phone, files, folder, timeout_seconds=limit)

    outcomes = await asyncio.gather(*(one(phone, need) for phone, need in waiting.items()))
    lost = {p: error for p, error in zip(waiting, outcomes, strict=True) if error}
    _require_none(lost, len(waiting))


async def _place(
    room: StageRoom, data: DataOnController, waiting: Mapping[str, Need], of_phones: int
) -> None:
    """Have every phone verify what came and put it in its place."""
    by_files: dict[tuple[str, ...], list[str]] = {}
    for phone, need in waiting.items():
        by_files.setdefault(need.files, []).append(phone)
    batches = await asyncio.gather(
        *(
            room.fleet.run(
                phones,
                onphone.store("place"),
                stdin=data.order(files).to_json(),
                timeout_seconds=limit_seconds(data),
            )
            for files, phones in by_files.items()
        )
    )
    failed = {p: answer for batch in batches for p, answer in batch.items() if not answer.ok}
    _require_none({p: a.error or a.failure(p) for p, a in failed.items()}, of_phones)


def _require_none(failed: Mapping[str, PhoneError | str], of_phones: int) -> None:
    if failed:
        raise StagingError(
            f"{'; '.join(map(str, failed.values()))}; what has arrived is kept on {fold(failed)}, "
            "so launch again, or leave it out",
            _culprits(failed, of_phones),
        )


def _note(state: State, data: DataOnController, held: Mapping[str, Sequence[str]]) -> None:
    now, of_files = time.time(), len(data.manifest.shards)
    state.record_holdings(
        Holding(phone, data.name, data.sha256, len(files), of_files, now)
        for phone, files in held.items()
    )


async def check_phones(
    fleet: Fleet, state: State, data: DataOnController, phones: Sequence[str], *, full: bool
) -> dict[str, Survey | PhoneError | str]:
    """Ask phones what they hold, reading all of it if `full`, and note it."""
    answers = await survey(fleet, data, phones, "survey --full" if full else "survey")
    placed = {
        phone: answer.whole if answer.placed else ()
        for phone, answer in answers.items()
        if isinstance(answer, Survey)
    }
    _note(state, data, placed)
    return answers


def limit_seconds(data: DataOnController, moved_bytes: int = 0) -> float:
    """How long anything that reads or moves the whole data set may take, or `moved_bytes` if these
    are more."""
    most_bytes = max(sum(data.sizes.values()), moved_bytes)
    return max(TRANSFER_LIMIT_SECONDS, most_bytes / SLOWEST_BYTES_PER_SECOND)


async def stage_folder(fleet: Fleet, local: Path, target: str, phones: Sequence[str]) -> None:
    """Bring a folder or file of a run to phones; an old one of that name goes. Raises
    StagingError."""
    outcome = await fleet.put(phones, local, target, timeout_seconds=TRANSFER_LIMIT_SECONDS)
    if failed := {phone: str(error) for phone, error in outcome.items() if error is not None}:
        raise StagingError("; ".join(failed.values()), failed)
