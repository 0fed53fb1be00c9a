"""What is to be done with one switch, and how it went."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fleetctl.switches.config import Config
from fleetctl.switches.errors import SwitchError
from fleetctl.switches.intent import SwitchIntent
from fleetctl.switches.plan import Change, Step
from fleetctl.switches.platforms.base import Platform
from fleetctl.switches.secrets import Secrets
from fleetctl.switches.session import LostError, Patience, RejectedLineError, Target

type Result = Literal["unchanged", "would change", "changed"]
type Say = Callable[[str], None]


class StoppedError(SwitchError):
    """Somebody interrupted the run."""


@dataclass(frozen=True)
class Job:
    """One switch and what to do with it.

    `reachable` tells which phones of the whole rack answer now; `backup` keeps a configuration,
    secrets concealed. `wanted` is a configuration to return to; without it the intent counts. One
    that is `restored_from` a file may not fit any more; without a file it ran a moment ago.
    """

    target: Target
    platform: Platform
    intent: SwitchIntent
    secrets: Secrets
    reachable: Callable[[], Collection[str]]
    backup: Callable[[str], object]
    wanted: Config | None = None
    restored_from: Path | None = None
    patience: Patience = field(default_factory=Patience)
    say: Say = lambda _: None
    stopped: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class Report:
    """How it went. `seconds` is the whole time; `notes` are for a person to read."""

    switch: str
    result: Result
    change: Change
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


@contextmanager
def placed(switch: str, typed: Sequence[tuple[Step, str]]) -> Iterator[None]:
    """Failures to type these lines name the port, or whatever the line was for."""
    try:
        yield
    except RejectedLineError as problem:
        place = next((step.place for step, line in typed if line == problem.line), "")
        raise SwitchError(
            switch, f"{place}: it rejected `{problem.line}`: {problem.text}", problem.cure
        ) from None
    except LostError as problem:
        place = typed[0][0].place if typed else ""
        raise LostError(switch, f"{place}: {problem.what}", problem.cure) from None
