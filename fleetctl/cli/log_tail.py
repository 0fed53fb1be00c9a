"""What the ranks of a run say, as the controller's copies of its logs have it, each line once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleetctl.cli.follow import TAG
from fleetctl.jobs.lines import Growing

if TYPE_CHECKING:
    from fleetctl.jobs.runs import RunFolder


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an attempt's log. `rank` and `phone` are None where mpirun itself speaks."""

    attempt: int
    rank: int | None
    phone: str | None
    text: str

    def __str__(self) -> str:
        if self.rank is None:
            return self.text
        return f"{self.phone or f'rank {self.rank}'}: {self.text}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a run; `phones` in rank order."""

    number: int
    phones: tuple[str, ...]
    log: Path


def attempts(run: RunFolder) -> list[Attempt]:
    """The attempts so far, oldest first."""
    found = {}
    for event in run.events():
        if event["kind"] in ("created", "attempt"):
            number = int(event.get("number", 1))
            folder = run.path if number == 1 else run.path / "attempts" / str(number)
            found[number] = Attempt(number, tuple(event["phones"]), folder / "mpirun.log")
    return [found[number] for number in sorted(found)]


def parse(attempt: Attempt, line: str) -> Line:
    """Who said a line of mpirun's log."""
    found = TAG.match(line)
    if not found:
        return Line(attempt.number, None, None, line)
    rank = int(found[1])
    phone = attempt.phones[rank] if rank < len(attempt.phones) else None
    return Line(attempt.number, rank, phone, line[found.end() :])


class Tail:
    """Hands on what is new since the last time, of one rank or of all."""

    def __init__(self, run: RunFolder, rank: int | None, take: Callable[[Line], None]) -> None:
        self._run, self._rank, self._take = run, rank, take
        self._logs: dict[int, Growing] = {}

    def read(self) -> None:
        """A last line without its end waits for it."""
        for attempt in attempts(self._run):
            self._read(attempt)

    def _read(self, attempt: Attempt) -> None:
        log = self._logs.setdefault(attempt.number, Growing(attempt.log))
        for text in log.new_lines():
            line = parse(attempt, text)
            if self._rank is None or line.rank == self._rank:
                self._take(line)
