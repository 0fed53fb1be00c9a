"""A hub that is a folder, and phones that read in it whether they get power."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetctl.rack import Outlet
from fleetctl.remote import Fault, PhoneError, Result

PROGRAM = """
import pathlib, sys
outlet, state, folder = sys.argv[1:]
where = pathlib.Path(folder)
if not (where / "broken").exists():
    (where / outlet).write_text(state)
print(f"outlet {outlet} is {state}")
sys.exit(7 if (where / "broken").exists() else 0)
"""


@dataclass
class Hub:
    """`lying` outlets say what they are told and stay live; `silent` phones do not answer."""

    folder: Path
    lying: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    celsius: dict[str, float] = field(default_factory=dict)
    outlets: dict[str, Outlet] = field(default_factory=dict)
    asked: int = 0

    def outlet(self, name: str, *phones: str) -> Outlet:
        command = (sys.executable, "-c", PROGRAM, "{outlet}", "{state}", str(self.folder))
        self.outlets[name] = Outlet(name, phones, command, 10.0)
        return self.outlets[name]

    def state(self, name: str) -> str:
        """What the hub says of the outlet."""
        file = self.folder / name
        return file.read_text() if file.exists() else "on"

    def feeds(self, phone: str) -> bool:
        (name,) = [each.name for each in self.outlets.values() if phone in each.phones]
        return name in self.lying or self.state(name) == "on"

    async def run_on(self, name: str, _command: str, **_: Any) -> Result:
        """A phone's answer to the probe, as fleetctl.remote.Fleet gives it."""
        self.asked += 1
        if name in self.silent:
            error = PhoneError(name, Fault.LOST, f"{name} stopped answering")
            return Result(None, error=error)
        tenths = round(self.celsius.get(name, 30.0) * 10)
        return Result(
            0,
            f"dumpsys\n  AC powered: {str(self.feeds(name)).lower()}\n  status: 2\n  health: 2\n"
            f"  level: 50\n  scale: 100\n  temperature: {tenths}\n",
        )
