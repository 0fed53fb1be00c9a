"""What a rank writes into the run folder: events (rank 0), its progress, its last word.

Standard library only, so that a phone that lacks NumPy or torch can still say so.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Literal

from trainer.errors import TrainerError
from trainer.formats import (
    EndEvent,
    Event,
    Final,
    Plan,
    Progress,
    event_to_json,
    final_name,
    progress_name,
    ready_name,
)

EVENTS = "progress.jsonl"
_PROGRESS_SECONDS = 0.5
"""A progress file is not rewritten more often: short iterations would wear the flash."""


class Terminated(SystemExit):
    """SIGTERM came, from `fleetctl stop` or from mpirun after another rank's end."""


def world_rank() -> int:
    """This process's MPI rank as mpirun tells it, before (and without) MPI itself."""
    return int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))


class Reporter:
    """The files of one rank in `run_dir`."""

    def __init__(self, run_dir: Path, plan: Plan) -> None:
        self._run_dir, self._plan = run_dir, plan
        self.rank = world_rank()
        known = self.rank < len(plan.phones)
        self.phone = plan.phones[self.rank] if known else f"rank {self.rank}"
        self.iteration = 0
        """Iterations that are done."""
        self.test_accuracy: float | None = None
        self.finished_early = False
        """The run was asked to end, and all ranks do so at the same iteration."""
        self.notes: list[str] = []
        """What a person should know of the start; in its event."""
        self._progress_written = 0.0
        self._ended = False

    def event(self, event: Event) -> None:
        """Append to the run's events; the ranks but the first say nothing there."""
        if self.rank == 0:
            with (self._run_dir / EVENTS).open("a") as file:
                file.write(event_to_json(event) + "\n")

    def note(self, text: str) -> None:
        """Rank 0's goes into the event of the start, another's into its log."""
        if text and self.rank == 0:
            self.notes.append(text)
        elif text:
            print(f"{self.phone} (rank {self.rank}): {text}", flush=True)

    def ready(self) -> None:
        """Who has said so, and who has not, tells whom the others wait for before the first
        iteration."""
        (self._run_dir / ready_name(self.rank)).touch()

    def progress(self, progress: Progress) -> None:
        last = progress.iteration == progress.iterations
        if last or progress.time - self._progress_written >= _PROGRESS_SECONDS:
            self._progress_written = progress.time
            progress.write(self._run_dir / progress_name(self.rank), durable=False)

    def done(self, parameters_sha256: str | None) -> None:
        """The last word of a rank that did what was asked of it."""
        if self.finished_early:
            reason = f"finished early, as asked, after iteration {self.iteration}"
            self._end("stopped", reason, parameters_sha256)
        else:
            self._end("done", None, parameters_sha256)

    def failed(self, reason: str) -> None:
        """The last word of a rank that failed; a second one is not heard. Where it cannot be
        written, it is said in the log at least."""
        if not self._ended:
            print(f"{self.phone} (rank {self.rank}): {reason}", file=sys.stderr, flush=True)
            with suppress(OSError):
                self._end("failed", reason, None)

    def _end(
        self,
        status: Literal["done", "failed", "stopped"],
        reason: str | None,
        parameters_sha256: str | None,
    ) -> None:
        self._ended = True
        with suppress(OSError):  # the record below is what counts
            self.event(EndEvent(time.time(), self.iteration, status, reason, self.test_accuracy))
        final = Final(
            run=self._plan.run,
            rank=self.rank,
            phone=self.phone,
            status=status,
            reason=reason,
            iteration=self.iteration,
            test_accuracy=self.test_accuracy,
            parameters_sha256=parameters_sha256,
        )
        place = self._run_dir / final_name(self.rank)
        try:
            final.write(place)
        except OSError:
            # On a full disk, what nobody needs any more makes room for it.
            (self._run_dir / progress_name(self.rank)).unlink(missing_ok=True)
            final.write(place)


@contextmanager
def reporting(run_dir: Path, plan: Plan) -> Iterator[Reporter]:
    """However the block ends, the rank says how. SIGTERM ends it with Terminated."""
    reporter = Reporter(run_dir, plan)
    (run_dir / final_name(reporter.rank)).unlink(missing_ok=True)  # of a run that is resumed
    with terminating():
        try:
            yield reporter
        except BaseException as error:
            reporter.failed(explain(error))
            raise


@contextmanager
def terminating() -> Iterator[None]:
    """SIGTERM ends the block with Terminated."""
    previous = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def explain(error: BaseException) -> str:
    """The reason in a final record: one line that a person can act on."""
    if isinstance(error, Terminated):
        return "terminated"
    if isinstance(error, ModuleNotFoundError):
        package = f"python-{error.name}"
        return f"Python has no module {error.name!r}: install the phone's package {package}"
    if isinstance(error, TrainerError):
        return str(error)
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {error}"


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    # Once is enough: a second signal must not disturb the writing of the last word.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated("terminated")
