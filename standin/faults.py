"""Faults of stand-in phones: what there are, which a phone has, how it looks from outside.

Pure but for the file that records them: `standin.trouble` makes them happen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from fleetctl.rack import InputError
from fleetctl.rack.files import write_atomic
from standin.engine import Container

type Kind = Literal[
    "kill",
    "hang",
    "reboot",
    "slow",
    "hot",
    "unplug",
    "swap-port",
    "flap",
    "100mbit",
    "300mbit",
    "syn-loss",
    "disk-full",
    "clock",
    "battery-hang",
    "hub-lies",
    "locked",
]

type Value = float | str | None
type Faults = dict[Kind, Value]
"""The lasting faults of one phone, each with its value (None for those that have none)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault to set. `value` is a number in the unit that `describe` shows, a word, or None."""

    kind: Kind
    value: Value = None

    def __str__(self) -> str:
        return describe(self.kind, self.value)


@dataclass(frozen=True, slots=True)
class Argument:
    """What stands behind a kind's `=`. `read` raises ValueError, with a reason where it has one.

    `otherwise` is the value of a fault that is written without; None where it needs one.
    """

    written: str
    read: Callable[[str], Value]
    show: Callable[[Value], str] = str
    otherwise: Value = None


@dataclass(frozen=True, slots=True)
class Nature:
    """What a kind of fault means, and what is written behind it, if anything."""

    meaning: str
    argument: Argument | None = None


def _speed(text: str) -> float:
    speed = float(text)
    # The kernel's bandwidth control goes no lower than 1 ms in 1 s.
    if not 0.01 <= speed < 1:
        raise ValueError("the speed must be at least 0.01 and less than 1")
    return speed


def _percent(text: str) -> float:
    percent = float(text.removesuffix("%"))
    if not 0 < percent <= 100:
        raise ValueError("it is more than 0 and at most 100 percent")
    return percent


def _period(text: str) -> float:
    seconds = float(text.removesuffix("s"))
    if not 2 <= seconds <= 3600:
        raise ValueError("the link goes down once in 2 to 3600 seconds")
    return seconds


def _phone(text: str) -> str:
    if not text:
        raise ValueError("it is another phone, such as swap-port=phone008")
    return text


_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _size(text: str) -> float:
    found = re.fullmatch(r"(\d+)([kmg]?)", text.lower().removesuffix("b"))
    if not found:
        raise ValueError("it is what stays free, such as 0, 4m or 1g")
    return float(int(found[1]) * _SIZES[found[2]])


def _show_size(value: Value) -> str:
    size = int(value) if isinstance(value, float) else 0
    fitting = [unit for unit, scale in _SIZES.items() if size and size % scale == 0]
    unit = fitting[-1] if fitting else ""
    return f"{size // _SIZES[unit]}{unit}"


_TIME_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _clock(text: str) -> str:
    """`1970`, or the seconds that the clock is ahead, with their sign."""
    if text == "1970":
        return text
    found = re.fullmatch(r"([+-]\d+(?:\.\d+)?)([smhd]?)", text)
    if not found:
        raise ValueError("it is 1970, or an offset such as +90s or -2h")
    return f"{float(found[1]) * _TIME_UNITS[found[2] or 's']:+g}s"


def _battery_hang(text: str) -> str:
    if text not in ("always", "ssh") and not re.fullmatch(r"1in[1-9]\d{0,3}", text):
        raise ValueError("it is always, ssh, or a part of the calls such as 1in15")
    return text


NATURES: Mapping[Kind, Nature] = {
    "kill": Nature("power cut: everything on it ends at once"),
    "hang": Nature("frozen: answers nothing, comes on where it was"),
    "reboot": Nature("starts anew (needs no heal)"),
    "slow": Nature(
        "processor at X of its share, 0 < X < 1",
        Argument("X", _speed, lambda value: f"{value:g}"),
    ),
    "hot": Nature("lies in the heat, 46 °C: throttles at once, whatever its fan does"),
    "unplug": Nature("Ethernet cable pulled"),
    "swap-port": Nature(
        "plugged into another phone's port, and that into its own: swap-port=phone008",
        Argument("PHONE", _phone),
    ),
    "flap": Nature(
        "Ethernet link goes down for a moment, every so often: flap=20s",
        Argument("SECONDS", _period, lambda value: f"{value:g}s"),
    ),
    "100mbit": Nature("adapter fell back to 100 Mb/s, a tenth of its rate"),
    "300mbit": Nature("hub at USB 2 speed: 300 Mb/s, three tenths of its rate"),
    "syn-loss": Nature(
        "loses this part of new connections: syn-loss=3%",
        Argument("PERCENT", _percent, lambda value: f"{value:g}%"),
    ),
    "disk-full": Nature(
        "storage full; or that much of it free: disk-full=200m",
        Argument("FREE", _size, _show_size, otherwise=0.0),
    ),
    "clock": Nature(
        "clock wrong by an offset, or after a flat battery: clock=+90s, clock=1970 (starts anew)",
        Argument("OFFSET|1970", _clock),
    ),
    "battery-hang": Nature(
        "termux-battery-status never returns; or now and then, or over ssh: battery-hang=1in15, "
        "battery-hang=ssh",
        Argument("1inN|ssh", _battery_hang, otherwise="always"),
    ),
    "hub-lies": Nature("its power outlet feeds it even when it says that it is off"),
    "locked": Nature("has a PIN: when it starts anew, nothing of Termux does until it is healed"),
}


_LINK_MBITS: Mapping[Kind, int] = {"100mbit": 100, "300mbit": 300}


def link_mbits(faults: Faults) -> int:
    """What the link of a phone with these faults carries where 1000 would be right."""
    return min((mbits for kind, mbits in _LINK_MBITS.items() if kind in faults), default=1000)


def describe(kind: Kind, value: Value) -> str:
    """As it is written on the command line."""
    argument = NATURES[kind].argument
    if argument is None or value == argument.otherwise:
        return kind
    return f"{kind}={argument.show(value)}"


def parse_fault(text: str) -> Fault:
    """`kill`, `slow=0.5`, `clock=+90s`, … Raises InputError with what there is."""
    name, equals, value = text.partition("=")
    kind: Kind
    for kind in get_args(Kind.__value__):
        argument = NATURES[kind].argument
        if kind != name or (equals and not argument):
            continue
        if argument is None:
            return Fault(kind)
        if not equals and argument.otherwise is not None:
            return Fault(kind, argument.otherwise)
        try:
            return Fault(kind, argument.read(value))
        except ValueError as problem:
            reason = str(problem)
            if not equals or "could not convert" in reason:
                break
            raise InputError(f"{text}: {reason}") from None
    raise InputError(f"unknown fault `{text}`; there are:\n{listing()}")


def listing() -> str:
    """All kinds with their meanings, a line each."""
    forms = {form(kind): nature.meaning for kind, nature in NATURES.items()}
    width = max(map(len, forms))
    return "\n".join(f"  {each:{width}} {meaning}" for each, meaning in forms.items())


def form(kind: Kind) -> str:
    """How a kind is written, its argument as a word."""
    argument = NATURES[kind].argument
    if argument is None:
        return kind
    value = f"={argument.written}"
    return f"{kind}[{value}]" if argument.otherwise is not None else kind + value


def observed(
    recorded: Faults, container: Container | None, is_plugged: bool | None
) -> Faults | None:
    """The faults that a phone really has, out of those recorded and what is seen of it.

    None for a phone that is dead or gone without a fault having done it. `is_plugged` is None
    where its port does not exist.
    """
    if container is None or (container.state == "dead" and "kill" not in recorded):
        return None
    faults = {kind: value for kind, value in recorded.items() if kind not in ("kill", "hang")}
    if container.state == "dead":
        faults["kill"] = None
    elif container.state == "paused":
        faults["hang"] = None
    if is_plugged is not None and "flap" not in recorded:
        faults.pop("unplug", None)
        if not is_plugged:
            faults["unplug"] = None
    return faults


def exchanges(faults: Mapping[str, Faults]) -> list[tuple[str, str]]:
    """Phones that are plugged into each other's port; each of the two has the other's name."""
    found = {
        tuple(sorted((phone, str(kinds["swap-port"]))))
        for phone, kinds in faults.items()
        if "swap-port" in kinds
    }
    return sorted((one, other) for one, other in found)


def read_faults(path: Path) -> dict[str, Faults]:
    """The recorded faults by phone; a rack without any has no file."""
    if not path.exists():
        return {}
    phones: dict[str, Faults] = json.loads(path.read_text())["phones"]
    return phones


def write_faults(path: Path, faults: Mapping[str, Faults]) -> None:
    present = {phone: kinds for phone, kinds in faults.items() if kinds}
    write_atomic(path, json.dumps({"version": 1, "phones": present}, indent=2) + "\n")


class FaultFile:
    """The recorded faults for one who looks often: read again only when they have changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: int | None = None
        self.faults: dict[str, Faults] = {}

    def changed(self) -> bool:
        """Look; whether `faults` is another than before."""
        try:
            stamp = self._path.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        if stamp == self._stamp:
            return False
        self._stamp, before = stamp, self.faults
        self.faults = read_faults(self._path)
        return self.faults != before
