"""How troublesome a stand-in switch is, as it is written on a command line: `latency=0.2`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from fleetctl.rack import InputError
from standin.switches.device import Fault, Knobs


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing that can be set: the field of Knobs, and how its value is read and written.

    `read` raises ValueError with what would be right.
    """

    meaning: str
    field: str
    read: Callable[[str], Any]
    show: Callable[[Any], str] = lambda value: f"{value:g}"


def _number(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = high + 1
        if not low <= value <= high:
            raise ValueError(f"it is a number from {low:g} to {high:g}")
        return value

    return read


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise ValueError(f"it is a whole number from {low} to {high}")
        return int(text)

    return read


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("it is on or off")
    return text == "on"


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as problem:
        raise ValueError(f"it is a regular expression: {problem}") from None
    return text


def _on_off(value: bool) -> str:
    return "on" if value else "off"


KNOBS: Mapping[str, Knob] = {
    "latency": Knob("seconds before each answer", "latency_seconds", _number(0, 60)),
    "clock": Knob("how many times as fast its timers run", "timer_speed", _number(0.01, 3600)),
    "paging": Knob("long output comes in pages", "paging", _switch, _on_off),
    "echo-twice": Knob(
        "prints prompt and command once more, as one that falls behind",
        *("echo_twice", _switch, _on_off),
    ),
    "prompt-chars": Knob(
        "so much of its hostname in the prompt of IOS's configuration mode",
        *("config_prompt_chars", _whole(1, 64)),
    ),
    "sha1-only": Knob("its sshd knows nothing newer than SHA-1", "sha1_only", _switch, _on_off),
    "asks-before-saving": Knob(
        "asks before it overwrites what was saved", "asks_before_saving", _switch, _on_off
    ),
    "revert-timer": Knob(
        "IOS knows `configure terminal revert timer`", "revert_timer", _switch, _on_off
    ),
    "celsius": Knob("its temperature", "celsius", _number(-20, 120)),
    "poe": Knob("watts of PoE that it can give; phones take theirs", "poe_watts", _number(0, 3000)),
    "reject": Knob("lines of configuration that match are invalid", "reject", _pattern, str),
    "freeze-seconds": Knob(
        "how long it stays frozen, by its own timers", "freeze_seconds", _number(1, 1e5)
    ),
}
FAULTS: Mapping[str, str] = {
    "freeze": "freezes when so many more lines have been typed",
    "drop": "drops the session then",
    "power-off": "loses its power then, and starts anew",
}
"""What strikes once, at a line; written with the number of lines."""

_LINES = _whole(1, 100_000)


def parse_knob(text: str) -> dict[str, Any]:
    """Fields of Knobs that `NAME=VALUE` sets. Raises InputError with what there is."""
    name, _, value = text.partition("=")
    try:
        if name in FAULTS:
            return {"fault": name, "fault_at": "", "fault_after_lines": _LINES(value)}
        if name in KNOBS:
            return {KNOBS[name].field: KNOBS[name].read(value)}
    except ValueError as problem:
        raise InputError(f"{text}: {problem}") from None
    raise InputError(f"a switch has no knob `{name}`; there are:\n{listing()}")


def turned(knobs: Knobs, texts: Iterable[str], usual: bool = False) -> Knobs:
    """`knobs`, or with `usual` those of a switch without troubles, after all of `texts`."""
    found = Knobs() if usual else knobs
    for text in texts:
        found = replace(found, **parse_knob(text))
    return found


def written(knobs: Knobs) -> Iterator[str]:
    """Whatever is not as on a switch without troubles."""
    usual = Knobs()
    for name, knob in KNOBS.items():
        value = getattr(knobs, knob.field)
        if value != getattr(usual, knob.field):
            yield f"{name}={knob.show(value)}"
    if knobs.fault in get_args(Fault.__value__):
        yield f"{knobs.fault}={knobs.fault_after_lines}"


def listing() -> str:
    """All knobs with their meanings, a line each."""
    return "\n".join(f"  {name + '=':20} {meaning}" for name, meaning in meanings().items())


def meanings() -> dict[str, str]:
    return {name: knob.meaning for name, knob in KNOBS.items()} | dict(FAULTS)
