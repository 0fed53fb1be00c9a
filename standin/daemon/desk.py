"""What every service of a rack's daemon gets: the rack, and a place for the orders it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from standin.hardware.cgroups import Groups
from standin.rig import Rig

type Document = dict[str, Any]
type Answer = Callable[[Mapping[str, Any]], Awaitable[Document]]
"""Takes an order's arguments; a FleetError that it raises is shown to who gave the order."""

type Run = Callable[[Desk], Awaitable[None]]
"""A service: runs until it is cancelled. It may be run again after it has failed."""


@dataclass(slots=True)
class Condition:
    """How a service is; `problem` is why it failed last."""

    state: Literal["running", "failed", "ended"] = "running"
    problem: str = ""


@dataclass(slots=True)
class Desk:
    """Shared by all services of one daemon."""

    rig: Rig
    orders: dict[str, Answer] = field(default_factory=dict)
    on_change: list[Callable[[], None]] = field(default_factory=list)
    """Called when containers have been started or faults set."""
    services: dict[str, Condition] = field(default_factory=dict)
    groups: Groups = field(init=False)
    """The control groups of the rack's containers."""

    def __post_init__(self) -> None:
        self.groups = Groups(self.rig.rack.name)
        self.on_change.append(self.groups.look_again)
