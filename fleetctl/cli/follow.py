"""What a followed run looks like: a live line and remarks on stderr, the ranks' words on stdout."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from fleetctl.cli.output import progress

if TYPE_CHECKING:
    from rich.status import Status

    from fleetctl.jobs.runs import RunFolder
    from fleetctl.jobs.supervise import Watch
    from fleetctl.jobs.tracker import Tracker
    from fleetctl.jobs.verdict import Verdict

LINE_EVERY_SECONDS = 5.0
"""Without a terminal to redraw a line in, one is printed so often."""

# `[1,2]<stdout>: text` of 4.1 and `[prterun-…@1,2]<stdout>: text` of 5.0.
TAG = re.compile(r"^\[(?:[^\]]*@)?\d+,(\d+)\]<(?:stdout|stderr)>: ?")


def untagged(line: str, phones: tuple[str, ...]) -> tuple[int | None, str]:
    """The rank that said a line of mpirun.log, and the line with its phone's name in front."""
    found = TAG.match(line)
    if not found:
        return None, line
    rank = int(found[1])
    name = phones[rank] if rank < len(phones) else f"rank {rank}"
    return rank, f"{name}: {line[found.end() :]}"


class Screen:
    """The terminal of a run. A terminal that has gone away is no reason to fail."""

    def __init__(self, *, for_program: bool = False) -> None:
        """`for_program`: stdout is left to one document."""
        self._console = progress()
        self._for_program = for_program
        self._status: Status | None = None
        self._began = time.monotonic()
        self._printed = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clear()

    def remark(self, text: str) -> None:
        """One line that stays."""
        try:
            self._console.print(text, markup=False, soft_wrap=True)
        except OSError:
            self._clear()

    def word(self, text: str) -> None:
        """What a run says on stdout."""
        click.echo(text, err=self._for_program)

    def status(self, text: str) -> None:
        """The live line."""
        try:
            if self._console.is_terminal:
                if self._status is None:
                    self._status = self._console.status(text)
                    self._status.start()
                self._status.update(text)
            elif time.monotonic() - self._printed > LINE_EVERY_SECONDS:
                self._printed = time.monotonic()
                self._console.print(text, markup=False, soft_wrap=True)
        except OSError:
            self._clear()

    def attach(self, watch: Watch, *, show_log: bool, rank: int | None = None) -> Watch:
        """Show the run that `watch` follows; with `show_log` what its ranks print, too."""
        phones = watch.phones

        def on_progress(tracker: Tracker) -> None:
            elapsed = time.strftime("%H:%M:%S", time.gmtime(time.monotonic() - self._began))
            self.status(f"{watch.run.name} · {tracker.line()} · {elapsed}")

        def on_log(line: str) -> None:
            said, text = untagged(line, phones)
            if rank is None or said == rank:
                with suppress(OSError):  # `| head` has seen enough; the run goes on
                    self.word(text)

        watch.on_progress = on_progress
        watch.on_remark = self.remark
        if show_log:
            watch.on_log = on_log
        return watch

    def conclude(self, run: RunFolder, verdict: Verdict) -> None:
        """The outcome: one line on stdout, the reason and what to try on stderr."""
        self._clear()
        accuracy = verdict.test_accuracy
        self.word(
            f"{run.name} {verdict.state}"
            + (f", test accuracy {accuracy:.2%}" if accuracy is not None else "")
        )
        if verdict.state == "failed":
            self.remark(f"{run.name} failed: {verdict.reason}")
            self.remark(f"see `fleetctl logs {run.name}`; all of it is in {run.path}")
        if verdict.state == "done" and verdict.reason:
            self.remark(f"{run.name}: {verdict.reason}")
        if verdict.state == "stopped" and verdict.left:
            self.remark(f"{run.name}: {verdict.reason}")
            self.remark(f"`fleetctl stop {run.name}` clears these phones once they answer")
        if verdict.state != "done" and run.plan() is not None:
            self.remark(f"go on with `fleetctl launch --resume {run.name}`")

    def _clear(self) -> None:
        status, self._status = self._status, None
        try:
            if status is not None:
                status.stop()
        except OSError:
            return
