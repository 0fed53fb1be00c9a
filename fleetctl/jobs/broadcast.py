"""A data set from the controller to its first phone, and along the ring to all that lack it.

The copy to the first phone, whose files appear there one by one, and the chain of ranks
(trainer.stage) go on at the same time, so that all phones have it hardly later than one would.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetctl.jobs import mpirun, onphone, settle
from fleetctl.jobs.staging import (
    SLOWEST_BYTES_PER_SECOND,
    DataOnController,
    Need,
    StageRoom,
    StagingError,
    limit_seconds,
)
from fleetctl.jobs.verdict import Evidence, judge
from fleetctl.rack.nodesets import fold
from fleetctl.remote import PhoneError
from trainer.formats import Final, FormatError, StagedFile, StagePlan, final_name

START_LIMIT_SECONDS = 30.0
WATCH_SECONDS = 3.0
ANSWER_LIMIT_SECONDS = 20.0
TELL_SECONDS = 10.0
PATIENCE_SECONDS = 120.0
"""How long nothing may move where a rank's next file is on its way to it."""


async def broadcast(
    room: StageRoom, data: DataOnController, run: str, waiting: Mapping[str, Need]
) -> None:
    """Bring what is lacking to the phones of `waiting`, in ring order. Raises StagingError."""
    phones = tuple(waiting)
    plan = stage_plan(data, run, waiting)
    chain = _Chain(room, data, run, phones, plan)
    try:
        await chain.bring_orders()
        await chain.start()
        lost = await chain.until_over()
        reason, culprits = await chain.outcome(lost)
    except BaseException:
        await settle.to_the_end(chain.clear())
        raise
    await settle.to_the_end(chain.clear(ended=reason is None))
    if reason is not None:
        raise StagingError(
            f"data set {data.name} did not reach all of {fold(phones)}: {reason}. Whole files stay "
            "where they arrived, so the next launch brings only what is missing",
            culprits,
        )


def stage_plan(data: DataOnController, run: str, waiting: Mapping[str, Need]) -> StagePlan:
    """Who lacks which file. Pure."""
    ranks: dict[str, list[int]] = {}
    for rank, need in enumerate(waiting.values()):
        for file in need.lacking:
            ranks.setdefault(file, []).append(rank)
    files = tuple(
        StagedFile(shard.file, data.sizes[shard.file], shard.sha256, tuple(ranks[shard.file]))
        for shard in data.manifest.shards
        if shard.file in ranks
    )
    whole = [shard.file for shard in data.manifest.shards]
    patience = PATIENCE_SECONDS + _longest_gap_bytes(files, len(waiting)) / SLOWEST_BYTES_PER_SECOND
    return StagePlan(
        run, tuple(waiting), data.order(whole), files, patience_seconds=round(patience, 1)
    )


def _longest_gap_bytes(files: Sequence[StagedFile], ranks: int) -> int:
    """How much may pass the others by before a rank gets the next file that it lacks. Pure."""
    passing, longest = [0] * ranks, 0
    for file in files:
        for rank in range(ranks):
            if rank in file.lacking:
                longest, passing[rank] = max(longest, passing[rank]), 0
            else:
                passing[rank] += file.size_bytes
    return longest


@dataclass(frozen=True, slots=True)
class _Chain:
    room: StageRoom
    data: DataOnController
    run: str
    phones: tuple[str, ...]
    plan: StagePlan

    @property
    def head(self) -> str:
        return self.phones[0]

    async def bring_orders(self) -> None:
        addresses = [self.room.rack.phones[phone].address for phone in self.phones]
        world = mpirun.World(
            series=self.room.rack.versions.openmpi,
            run=self.run,
            ranks=len(self.phones),
            cidr=str(self.room.rack.network.cidr),
            folder=onphone.folder(self.run, stage=True),
            environment={"PYTHONPATH": f"{onphone.RELEASES}/{self.room.release}/python"},
        )
        program = [onphone.PYTHON, "-m", "trainer.stage", "stage.json"]
        line = mpirun.arguments(world, program)
        with tempfile.TemporaryDirectory() as folder:
            local = Path(folder) / "stage"
            local.mkdir()
            (local / "hostfile").write_text(mpirun.hostfile(addresses))
            script = onphone.start_script(self.run, line, world.series, addresses[0], stage=True)
            (local / "start.sh").write_text(script)
            self.plan.write(local / "stage.json")
            outcome = await self.room.fleet.put(
                self.phones, local, onphone.folder(self.run, stage=True)
            )
        if failed := {phone: str(error) for phone, error in outcome.items() if error}:
            raise StagingError("; ".join(failed.values()), failed)

    async def start(self) -> None:
        answer = await self.room.fleet.run_on(
            self.head,
            onphone.start_command(self.run, stage=True),
            timeout_seconds=START_LIMIT_SECONDS,
        )
        if not answer.ok:
            raise StagingError(f"the broadcast did not start: {answer.failure(self.head)}")

    async def until_over(self) -> dict[str, PhoneError]:
        """Until mpirun has ended, or a phone is lost: which, and why."""
        feed = asyncio.create_task(self._feed())
        ended = asyncio.create_task(self._ended())
        watch = asyncio.create_task(self._watch())
        tasks = {feed, ended, watch}
        try:
            while True:
                done, _ = await asyncio.wait(
                    tasks - {t for t in (feed,) if t.done()}, return_when=asyncio.FIRST_COMPLETED
                )
                if feed.done() and (error := feed.result()) is not None and not ended.done():
                    return {self.head: error}
                if watch in done:
                    return watch.result()
                if ended in done:
                    return {}
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _feed(self) -> PhoneError | None:
        """The first phone's files, in the order in which the chain sends them."""
        files = [self.data.folder / f.file for f in self.plan.files if 0 in f.lacking]
        folder = onphone.data_part(self.data.name, self.data.sha256)
        return await self.room.fleet.put_each(
            self.head, files, folder, timeout_seconds=limit_seconds(self.data)
        )

    async def _ended(self) -> None:
        await self.room.fleet.run_on(
            self.head,
            onphone.wait_for_end(self.run, stage=True),
            timeout_seconds=limit_seconds(self.data),
        )

    async def _watch(self) -> dict[str, PhoneError]:
        """Until a phone does not answer, twice; tells how far the slowest one is."""
        fleet, command, told = self.room.fleet, onphone.staged_bytes(self.run), time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            answers = await fleet.run(self.phones, command, timeout_seconds=ANSWER_LIMIT_SECONDS)
            silent = [phone for phone, answer in answers.items() if answer.error]
            again = await fleet.run(silent, command, timeout_seconds=ANSWER_LIMIT_SECONDS)
            errors = {p: answer.error for p, answer in again.items() if answer.error}
            if lost := {p: error for p, error in errors.items() if not error.reached}:
                return lost
            if time.monotonic() - told >= TELL_SECONDS:
                told = time.monotonic()
                self._tell([answer.stdout for answer in (answers | again).values()])

    def _tell(self, said: Sequence[str]) -> None:
        come = [int(text) if text.strip().isdigit() else 0 for text in said]
        whole = [
            sum(f.size_bytes for f in self.plan.files if rank in f.lacking)
            for rank in range(len(self.phones))
        ]
        # One that has all of it, only not in its place yet, waits for nothing.
        parts = [(part, total) for part, total in zip(come, whole, strict=True) if total]
        part, total = min(parts, key=lambda pair: pair[0] / pair[1])
        self.room.remark(
            f"data set {self.data.name}: {part / 1e6:,.0f} of {total / 1e6:,.0f} MB have reached "
            "the slowest phone"
        )

    async def outcome(self, lost: Mapping[str, PhoneError]) -> tuple[str | None, Mapping[str, str]]:
        """Why it failed, if it did, and which phones are to blame."""
        fleet, head = self.room.fleet, self.head
        folder = onphone.folder(self.run, stage=True)
        if lost:
            await settle.end_mpirun(fleet, self.run, head, stage=True)
        asked = [phone for phone in self.phones if phone not in lost]
        answers = await fleet.run(
            asked,
            onphone.read_finals(self.run, stage=True),
            timeout_seconds=ANSWER_LIMIT_SECONDS,
        )
        unreachable = {p: str(error) for p, error in lost.items()}
        finals: dict[int, Final] = {}
        for rank, phone in enumerate(self.phones):
            answer = answers.get(phone)
            if answer is None:
                continue
            if answer.error is not None:
                unreachable[phone] = str(answer.error)
            elif answer.stdout.strip():
                try:
                    finals[rank] = Final.from_json(answer.stdout, f"{phone}: {final_name(rank)}")
                except FormatError:
                    continue  # a rank that was cut off in its last word has none
        log = "" if head in lost else (await fleet.run_on(head, f"cat {folder}/mpirun.log")).stdout
        verdict = judge(
            Evidence(
                phones=self.phones,
                addresses={p: self.room.rack.phones[p].address for p in self.phones},
                finals=finals,
                unreachable=unreachable,
                blamed={},
                unswept={},
                mpirun_code=None,
                log=log,
                stopped=False,
            )
        )
        return (None, {}) if verdict.state == "done" else (verdict.reason, verdict.culprits)

    async def clear(self, *, ended: bool = False) -> None:
        """Leave no process of it and no folder on any phone."""
        fleet = self.room.fleet
        if not ended:
            await settle.end_mpirun(fleet, self.run, self.head, stage=True)
            await settle.sweep(fleet, self.run, self.phones)
        await fleet.run(self.phones, onphone.remove_stage(self.run), timeout_seconds=15)
