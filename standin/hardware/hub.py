"""The power hub of a rack: outlets that are on or off, and how fast the hardware's time goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fleetctl.rack.files import write_atomic
from standin.hardware.state import HardwareState

VERSION = 1


@dataclass(frozen=True, slots=True)
class Hub:
    """`off` are the outlets that are off. `pace` is model seconds in a real one; 0 stands still."""

    off: frozenset[str] = frozenset()
    pace: float = 1.0

    def switched(self, outlets: set[str], on: bool) -> Hub:
        return replace(self, off=self.off - outlets if on else self.off | outlets)

    def feeds(self, outlet: str, lying: set[str]) -> bool:
        """Whether power comes out of an outlet; one that lies gives it whatever it says."""
        return outlet not in self.off or outlet in lying

    def save(self, path: Path) -> None:
        document = {"version": VERSION, "off": sorted(self.off), "pace": self.pace}
        write_atomic(path, json.dumps(document) + "\n")

    @classmethod
    def load(cls, path: Path) -> Hub:
        """The kept one; a fresh one where there is none, or one of another version."""
        try:
            document = json.loads(path.read_text())
        except (FileNotFoundError, ValueError):
            return cls()
        if document.get("version") != VERSION:
            return cls()
        return cls(frozenset(document["off"]), document["pace"])


def fed_by(states: Mapping[str, HardwareState]) -> dict[str, list[str]]:
    """The phones of each outlet."""
    phones: dict[str, list[str]] = {}
    for name, state in states.items():
        phones.setdefault(state.surroundings.outlet, []).append(name)
    return phones
