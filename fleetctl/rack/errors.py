"""What a person wrote is wrong: where, what, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fleetctl.errors import ExitCode, FleetError


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One wrong place in a file that a person wrote. `line` counts from 1."""

    file: str
    line: int
    what: str
    cure: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}; {self.cure}"


class InputError(FleetError):
    """Bad input of a person: a file, an option, a node set.

    Made from one sentence, or from all mistakes of a file, which it shows one a line.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_INPUT

    def __init__(self, problem: str | Sequence[Mistake]) -> None:
        self.mistakes: tuple[Mistake, ...] = (
            () if isinstance(problem, str) else tuple(sorted(problem))
        )
        super().__init__(
            problem if isinstance(problem, str) else "\n".join(map(str, self.mistakes))
        )


class RackError(InputError):
    """The rack file, its lock file, or a node set of the rack is wrong."""
