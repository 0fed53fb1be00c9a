"""What the steps of a launch hand to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fleetctl.checks.phone import PhoneFacts
from fleetctl.rack import Rack, RackPaths
from fleetctl.rack.model import OpenMpiSeries
from fleetctl.remote import Fleet
from fleetctl.state import State
from trainer.formats import MemoryNeed, Plan


@dataclass(frozen=True, slots=True)
class Room:
    """What every step of a launch works with."""

    fleet: Fleet
    rack: Rack
    state: State
    paths: RackPaths
    remark: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Phones in rank order, and what preflight found out about them."""

    phones: tuple[str, ...]
    facts: Mapping[str, PhoneFacts]
    preflight_seconds: float
    spares: tuple[str, ...] = ()
    """Phones to be held beside them."""
    avoided: Mapping[str, str] = field(default_factory=dict)
    """Phones that would do but for their heat -> what tells of it."""

    @property
    def free_bytes(self) -> dict[str, int | None]:
        """Of each phone's memory; None is unknown."""
        return {phone: self.facts[phone].free_memory_bytes for phone in self.phones}


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that a start needs, without having touched a phone. `name`: of the attempt."""

    name: str
    chosen: Chosen
    plan: Plan | None
    mpirun: tuple[str, ...]
    series: OpenMpiSeries
    trainer_alone: bool
    """Whether the ranks run the trainer, not a program of the user's."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    memory: MemoryNeed | None = None
    """What a rank was found to need, if it was rehearsed."""
