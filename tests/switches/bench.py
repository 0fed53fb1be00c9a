"""A stand-in switch with a person at it."""

from __future__ import annotations

from dataclasses import dataclass, field

from standin.switches.device import Device, Knobs
from standin.switches.editor import Kind
from standin.switches.plane import MemoryNetwork
from standin.switches.session import Session

PORTS: dict[Kind, tuple[str, ...]] = {
    "ios": tuple(f"GigabitEthernet1/0/{n}" for n in range(1, 10)),
    "eos": tuple(f"Ethernet{n}" for n in range(1, 10)),
}


@dataclass
class Bench:
    """A switch with a person at it and a clock that the test turns."""

    kind: Kind = "ios"
    knobs: Knobs = field(default_factory=Knobs)
    network: MemoryNetwork = field(default_factory=MemoryNetwork)
    name: str = "sw1"
    now: float = 0.0

    def __post_init__(self) -> None:
        self.device = Device(
            *(self.kind, PORTS[self.kind], self.network.plane(self.name), {"admin": "pw"}),
            lambda: self.now,
            self.knobs,
        )
        self.session = Session(self.device, "admin")

    def type(self, *lines: str) -> list[str]:
        """What the last line prints."""
        printed: list[str] = []
        for line in lines:
            printed = self.session.take(line)
        return printed

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.device.tick()

    @property
    def shown(self) -> str:
        return "\n".join(self.type("do show running-config" if self.session.editor else "sh run"))
