"""What guard may decide to do, and what it is told back. Plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

DRAIN = "guard"
"""Who drains phones for as long as guard has a reason; it lifts what it set."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a phone said of its battery. `time` is when it was read, by the controller's clock."""

    time: float
    celsius: float
    plugged: bool
    percent: float | None = None
    charging: bool | None = None
    health: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the state knows of a phone: the run that has it, who drained it."""

    run: str | None = None
    drains: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Drain:
    """Keep a phone out of new jobs."""

    kind: ClassVar[str] = "drain"
    phone: str
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class Undrain:
    """Lift guard's own drain."""

    kind: ClassVar[str] = "undrain"
    phone: str
    who: str


@dataclass(frozen=True, slots=True)
class Kill:
    """KILL, at once, whatever runs of jobs on a phone."""

    kind: ClassVar[str] = "kill"
    phone: str
    why: str

    @property
    def key(self) -> str:
        return f"kill:{self.phone}"


@dataclass(frozen=True, slots=True)
class Stop:
    """End a run on all its phones, as `fleetctl stop` does."""

    kind: ClassVar[str] = "stop"
    run: str
    why: str

    @property
    def key(self) -> str:
        return f"stop:{self.run}"


@dataclass(frozen=True, slots=True)
class Switch:
    """Run an outlet's command."""

    kind: ClassVar[str] = "switch"
    outlet: str
    on: bool
    why: str

    @property
    def key(self) -> str:
        return f"switch:{self.outlet}"


@dataclass(frozen=True, slots=True)
class Blow:
    """Run a fan's command."""

    kind: ClassVar[str] = "fan"
    fan: str
    on: bool
    why: str

    @property
    def key(self) -> str:
        return f"fan:{self.fan}"


@dataclass(frozen=True, slots=True)
class Call:
    """Call a person. `what` is the section of docs/runbooks/guard.md; no two have one `number`."""

    kind: ClassVar[str] = "call"
    what: str
    phones: tuple[str, ...]
    message: str
    number: int

    @property
    def key(self) -> str:
        return f"call:{self.number}"


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was noticed, for the log."""

    kind: ClassVar[str] = "note"
    phone: str
    text: str


type Action = Drain | Undrain | Kill | Stop | Switch | Blow | Call | Note


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an action ended, by its `key`. `said` is a reason, or a hub's words."""

    key: str
    ok: bool
    said: str = ""


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that has come in since the last decision. `problems`: why phones told nothing.

    `clears`: phones that a person cleared, with the reason.
    """

    samples: Mapping[str, Sample] = field(default_factory=dict)
    facts: Mapping[str, Facts] = field(default_factory=dict)
    outcomes: Iterable[Outcome] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    clears: Mapping[str, str] = field(default_factory=dict)


def as_line(action: Action | Outcome, now: float) -> dict[str, Any]:
    """The action as one line of the log."""
    if isinstance(action, Outcome):
        key, _, target = action.key.partition(":")
        return {"time": now, "done": key, "of": target, "ok": action.ok, "said": action.said}
    return {"time": now, "do": action.kind, **asdict(action)}
