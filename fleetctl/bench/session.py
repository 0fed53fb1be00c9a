"""One bench: phones chosen once, then programs of the trainer on them, each by a launch of its own.

Every launch is an ordinary run: preflight, allocation, supervision and clean-up are those of
`fleetctl launch`, and so is Ctrl-C.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fleetctl import __version__
from fleetctl.bench.document import BENCH_FILE, Provenance
from fleetctl.errors import FleetError
from fleetctl.jobs import attach, launch, onphone, runs
from fleetctl.jobs.choose import NotEnoughPhones, Wish
from fleetctl.jobs.foreground import Foreground
from fleetctl.jobs.jobfile import command_job
from fleetctl.jobs.launch import Request, Room
from fleetctl.jobs.staging import StagingError
from fleetctl.jobs.supervise import Watch
from fleetctl.rack.nodesets import fold
from fleetctl.remote import PhoneError
from fleetctl.state import Held
from trainer.formats import Document, FormatError, measured_name

if TYPE_CHECKING:
    from fleetctl.rack import Rack

SPEC_FILE = "measure.json"
_PROJECT = Path(__file__).resolve().parents[2]


class BenchError(FleetError):
    """A measurement failed; the message names its run."""


class NotBegun(BenchError):
    """A launch came to nothing before anything was measured."""


class Stopped(FleetError):
    """A person stopped the bench; what it had measured by then is kept."""


@dataclass
class Session:
    """A bench under way. `folder` is runs/bench-KIND-N, new for each bench."""

    room: Room
    foreground: Foreground
    kind: str
    phones: tuple[str, ...]
    """Those that are left of the ones that were chosen."""
    folder: Path
    provenance: Provenance
    limit_seconds: float = 900.0
    """How long one launch may take."""
    names: list[str] = field(default_factory=list)
    """Of the runs so far."""
    problems: list[str] = field(default_factory=list)
    """What went wrong so far, for the document."""

    async def measure[Answer: Document](
        self,
        what: str,
        label: str,
        spec_of: Callable[[tuple[str, ...]], Document],
        answer: type[Answer],
        *,
        count: int | None = None,
        again: bool = True,
    ) -> list[Answer]:
        """Run `python -m trainer.measure WHAT` on the first `count` phones, or on all that are
        left; the answers by rank.

        `what` is collectives, compute or training. A phone that is lost is left out from then on,
        and the measurement is made once more without it, unless it had begun and is not to be made
        `again`. Raises BenchError where it fails, Stopped after Ctrl-C.
        """
        while True:
            phones = self.phones[:count]
            if len(phones) < (count or 1):
                raise BenchError(f"{label}: {count or 1} phones wanted, {len(phones)} are left")
            try:
                return await self._measure_on(phones, what, label, spec_of(phones), answer)
            except BenchError as error:
                if not (lost := await self._leave_out_lost()):
                    raise
                told = f"{error}; from here on without {fold(lost)}"
                if not again and not isinstance(error, NotBegun):
                    raise BenchError(told) from error
                self.note(told)

    def note(self, problem: str) -> None:
        """Tell of a problem, now and in the document."""
        self.problems.append(problem)
        self.room.remark(f"failed: {problem}")

    async def _leave_out_lost(self) -> list[str]:
        """Go on with the phones that are still ready; which are not."""
        wish = Wish(offered=self.phones, count=len(self.phones), minimum=1)
        try:
            ready = (await launch.choose_phones(self.room, wish)).phones
        except NotEnoughPhones:
            ready = ()
        lost = [phone for phone in self.phones if phone not in ready]
        self.phones = tuple(phone for phone in self.phones if phone in ready)
        return lost

    async def _measure_on[Answer: Document](
        self,
        phones: Sequence[str],
        what: str,
        label: str,
        spec: Document,
        answer: type[Answer],
    ) -> list[Answer]:
        self.room.remark(f"{label}: {len(phones)} {'phone' if len(phones) == 1 else 'phones'}")
        run = await self._launch(what, spec, phones)
        answers = await asyncio.gather(
            *(self._fetch(run, rank, phone, answer) for rank, phone in enumerate(phones))
        )
        return list(answers)

    async def _launch(self, what: str, spec: Document, phones: Sequence[str]) -> runs.RunFolder:
        job = command_job(["python", "-m", "trainer.measure", what, SPEC_FILE])
        job = job.model_copy(update={"name": f"{self.folder.name}-{what}", "phones": None})
        with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
            file = Path(temporary) / SPEC_FILE
            spec.write(file)
            request = Request(job, Wish(named=tuple(phones)), (file,))
            try:
                run, _ = await launch.launch(self.room, request, stack)
            except (NotEnoughPhones, Held, StagingError, launch.StartError) as error:
                raise NotBegun(f"{what}: {error}") from error
            self.names.append(run.name)
            watch = attach.watch_of(self.room, run)
            alarm = asyncio.create_task(self._end_when_late(watch))
            try:
                verdict = await self.foreground.supervise(watch)
            finally:
                alarm.cancel()
                # Between two runs Ctrl-C has nothing to stop but this program.
                self.foreground.supervised = None
        if verdict.state == "stopped":
            raise Stopped(f"{run.name} was stopped; `fleetctl bench report {self.folder.name}`")
        if verdict.state != "done":
            told = last_words(run)
            raise BenchError(
                f"{run.name}: {verdict.reason}" + (f"; it said: {told}" if told else "")
            )
        return run

    async def _end_when_late(self, watch: Watch) -> None:
        """A collective that hangs would hang for ever: such a run has no progress to watch."""
        await asyncio.sleep(self.limit_seconds)
        watch.trouble_reason = late(self.limit_seconds)
        watch.trouble.set()

    async def _fetch[Answer: Document](
        self, run: runs.RunFolder, rank: int, phone: str, answer: type[Answer]
    ) -> Answer:
        name = measured_name(rank)
        local = run.path / "measured" / name
        local.parent.mkdir(exist_ok=True)
        try:
            await self.room.fleet.get(phone, f"{onphone.folder(run.name)}/{name}", local)
            return answer.read(local)
        except PhoneError as error:
            raise BenchError(f"{run.name}: no answer: {error}") from None
        except FormatError as error:
            raise BenchError(f"{run.name}: the answer of {phone} is damaged: {error}") from None

    def keep(self, bench: Document) -> None:
        """Write bench.json; called after every launch, so that a stop loses nothing."""
        bench.write(self.folder / BENCH_FILE)

    def known(self) -> Provenance:
        """The provenance, with the runs so far and what preflight found out about their phones."""
        from dataclasses import replace

        versions: dict[str, dict[str, str]] = {}
        for name in self.names:
            path = self.room.paths.runs / name / "versions.json"
            found = json.loads(path.read_text())
            versions |= {key: value for key, value in found.items() if isinstance(value, dict)}
        return replace(self.provenance, runs=tuple(self.names), versions=versions)


def begin(
    room: Room,
    foreground: Foreground,
    kind: str,
    phones: Sequence[str],
    command: str,
    limit_seconds: float,
) -> Session:
    """A bench in a folder of its own."""
    folder = runs.create(room.paths.runs, f"bench-{kind}").path
    return Session(
        room,
        foreground,
        kind,
        tuple(phones),
        folder,
        provenance_of(room.rack, phones, command),
        limit_seconds,
    )


def provenance_of(rack: Rack, phones: Sequence[str], command: str) -> Provenance:
    models = {name: rack.phones[name].model or rack.phones[name].target for name in phones}
    return Provenance(
        rack=rack.name,
        medium=rack.network.medium,
        time=time.time(),
        command=command,
        fleetctl=__version__,
        commit=commit(_PROJECT),
        phones=tuple(phones),
        models=models,
        versions={},
    )


def commit(folder: Path) -> str | None:
    """The commit of a clone; None where there is none, or no git."""
    call: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run
    words = ["git", "-C", str(folder)]
    try:
        head = call([*words, "rev-parse", "--short=12", "HEAD"], text=True, capture_output=True)
        changed = call([*words, "status", "--porcelain"], text=True, capture_output=True)
    except OSError:
        return None
    if head.returncode:
        return None
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def late(limit_seconds: float) -> str:
    """What is said of a measurement that reached its limit."""
    return f"not done after {limit_seconds:.0f} s; --limit allows more"


def last_words(run: runs.RunFolder) -> str:
    """What the measuring program itself said of its failure."""
    if not run.log_file.exists():
        return ""
    lines = run.log_file.read_text(errors="replace").splitlines()
    said = [line.partition("measure: ")[2] for line in lines if "measure: " in line]
    return said[0] if said else ""
