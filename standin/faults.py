"""Faults of stand-in phones: what there are, which a phone has, how it looks from outside.

Pure: `standin.rig` makes them happen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from fleetctl.rack import InputError
from fleetctl.rack.files import write_atomic
from standin.engine import Container

type Kind = Literal["kill", "hang", "unplug", "slow", "reboot"]

_MEANINGS = {
    "kill": "power cut: everything on it ends at once",
    "hang": "frozen: answers nothing, comes on where it was",
    "unplug": "Ethernet cable pulled",
    "slow=X": "processor at X of its share, 0 < X < 1",
    "reboot": "starts anew (needs no heal)",
}

type Faults = dict[Kind, float | None]
"""The lasting faults of one phone; `slow` has its speed, the others None."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault to set. `speed`, of `slow` only, is relative to the phone's full share."""

    kind: Kind
    speed: float | None = None

    def __str__(self) -> str:
        return describe(self.kind, self.speed)


def describe(kind: Kind, speed: float | None) -> str:
    return kind if speed is None else f"{kind}={speed:g}"


def parse_fault(text: str) -> Fault:
    """`kill`, `hang`, `unplug`, `reboot` or `slow=0.5`. Raises InputError with the whole list."""
    name, equals, value = text.partition("=")
    for kind in get_args(Kind.__value__):
        if kind == name and bool(equals) == (name == "slow"):
            return Fault(kind, _speed(value)) if equals else Fault(kind)
    raise _unknown(text)


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        raise _unknown(f"slow={text}") from None
    # The kernel's bandwidth control goes no lower than 1 ms in 1 s.
    if not 0.01 <= speed < 1:
        raise InputError(f"slow={text}: the speed must be at least 0.01 and less than 1")
    return speed


def _unknown(text: str) -> InputError:
    known = "\n".join(f"  {name:8} {meaning}" for name, meaning in _MEANINGS.items())
    return InputError(f"unknown fault `{text}`; there are:\n{known}")


def observed(
    recorded: Faults, container: Container | None, is_plugged: bool | None
) -> Faults | None:
    """The faults that a phone really has, out of those recorded and what is seen of it.

    None for a phone that is dead or gone without a fault having done it. `is_plugged` is None
    where its port does not exist.
    """
    if container is None or (container.state == "dead" and "kill" not in recorded):
        return None
    faults = {kind: speed for kind, speed in recorded.items() if kind not in ("kill", "hang")}
    if container.state == "dead":
        faults["kill"] = None
    elif container.state == "paused":
        faults["hang"] = None
    if is_plugged is not None:
        faults.pop("unplug", None)
        if not is_plugged:
            faults["unplug"] = None
    return faults


def read_faults(path: Path) -> dict[str, Faults]:
    """The recorded faults by phone; a rack without any has no file."""
    if not path.exists():
        return {}
    phones: dict[str, Faults] = json.loads(path.read_text())["phones"]
    return phones


def write_faults(path: Path, faults: Mapping[str, Faults]) -> None:
    present = {phone: kinds for phone, kinds in faults.items() if kinds}
    write_atomic(path, json.dumps({"version": 1, "phones": present}, indent=2) + "\n")
