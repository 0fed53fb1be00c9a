"""What a simulated rack is made of: phones beside their hardware, and hubs that may lie."""

from __future__ import annotations

from dataclasses import dataclass, field

from fleetctl.guard.orders import LATER_SECONDS
from fleetctl.rack import Outlet
from standin.hardware.state import Defect, HardwareState

HOUR = 3600.0
STRIP = ("phone005", "phone006")
PHONES = tuple(f"phone{number:03}" for number in range(1, 7))
OUTLETS = {
    **{name: Outlet(name, (name,), ("hub", "{state}")) for name in PHONES[:4]},
    "strip": Outlet("strip", STRIP, ("hub", "{state}")),
}
BESIDE = {
    name: [other for other in PHONES if abs(int(name[-3:]) - int(other[-3:])) == 1]
    for name in PHONES
}
RUNAWAY_CELSIUS = 62.0
"""Air of a phone whose battery heats itself for as long as it is charged or its phone computes."""

DEFECTS: tuple[Defect, ...] = ("dead", "over-voltage", "failure")


@dataclass
class Phone:
    """A phone beside its hardware: what is wrong with it, and which run works there."""

    hardware: HardwareState
    run: str | None = None
    computes: bool = False
    drains: set[str] = field(default_factory=set)
    silent: bool = False
    runaway: bool = False
    above_since: float | None = None
    """Since when its battery is above the hard limit while power or job go on."""
    heard: float = 0.0
    back: float = 0.0
    """When it could be heard again, if guard could not know yet that it is above the limit."""

    def speak(self, now: float) -> None:
        self.silent = False
        if self.above_since is not None and self.heard < self.above_since:
            self.back = now


@dataclass
class Hub:
    """An outlet as it is. `way`: honest, lies, fails or hangs; `honest_since`: for how long."""

    on: bool = True
    way: str = "honest"
    honest_since: float = 0.0
    switched: list[float] = field(default_factory=list)
    commanded: bool = True

    def mend(self, now: float) -> None:
        self.way, self.honest_since = "honest", now

    def excused(self, now: float) -> bool:
        """An honest hub may have been told last while it was none."""
        return self.way != "honest" or now - self.honest_since < LATER_SECONDS + 15
