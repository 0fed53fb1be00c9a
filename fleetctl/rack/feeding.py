"""What the rack file says about power outlets and guard, and the mistakes in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetctl.rack.document import Document, Location
from fleetctl.rack.errors import Mistake, RackError
from fleetctl.rack.outlets import PLACEHOLDERS, GuardLimits, Outlet

if TYPE_CHECKING:
    from fleetctl.rack.model import Rack
    from fleetctl.rack.schema import GuardFile, PowerFile

LEAST_WINDOW_PERCENT = 10.0
"""A narrower charge window would switch more often than a battery and its outlet like."""

LEAST_STEP_CELSIUS = 2.0
_CALL_PLACEHOLDERS = ("{message}", "{phones}")


def one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


def command(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(
            f"`{value}` is one text, and no shell takes it apart; "
            "write a list such as [uhubctl, -a, '{state}', -p, '{outlet}']"
        )
    return value


def outlet_name(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"\w[\w.:/-]{0,63}", value):
        raise ValueError(f"{value!r} is no name of an outlet; use letters, digits and . : / -")
    return value


def build_outlets(
    document: Document, key: str, file: Iterable[PowerFile], rack: Rack
) -> tuple[dict[str, Outlet], list[Mistake]]:
    """The outlets of `power:` or the fans of `fans:` by name, in the file's order."""
    builder = _Outlets(document, rack, is_power=key == "power")
    for place, kind in enumerate(file):
        builder.take(kind, (key, place))
    return builder.outlets, builder.mistakes


class _Outlets:
    def __init__(self, document: Document, rack: Rack, is_power: bool) -> None:
        self.outlets: dict[str, Outlet] = {}
        self.mistakes: list[Mistake] = []
        self._document = document
        self._rack = rack
        self._is_power = is_power
        self._feeder: dict[str, str] = {}

    def take(self, kind: PowerFile, here: Location) -> None:
        words = self._command(kind.command, here)
        if kind.outlets is not None and kind.phones is not None:
            self._mistake(here, "both `phones` and `outlets`", "keep the one that fits")
        fed: dict[str, list[str] | None] = {
            name: self._select(each, (*here, "outlets", name))
            for name, each in (kind.outlets or {}).items()
        }
        if kind.outlets is None:
            sets = "@phones" if kind.phones is None else kind.phones
            fed = {name: [name] for name in self._select(sets, (*here, "phones")) or ()}
        if len(fed) > 1 and not any("{phone}" in w or "{outlet}" in w for w in words):
            self._mistake(
                (*here, "command"),
                f"one command for {len(fed)} outlets",
                "write `{outlet}` or `{phone}` where it says which one",
            )
        for name, members in fed.items():
            if members is not None:
                self._add(Outlet(name, tuple(members), words, kind.limit_seconds), here)

    def _add(self, outlet: Outlet, here: Location) -> None:
        if not outlet.phones:
            self._mistake(here, f"outlet {outlet.name} feeds no phone", "name them, or drop it")
            return
        if outlet.name in self.outlets:
            self._mistake(here, f"outlet {outlet.name} twice", "give each its own name")
        for phone in outlet.phones if self._is_power else ():
            if phone in self._feeder:
                self._mistake(
                    here,
                    f"{phone} is fed by outlet {self._feeder[phone]} and by {outlet.name}",
                    "a phone that two outlets feed cannot be cut off; name one",
                )
            self._feeder.setdefault(phone, outlet.name)
        self.outlets.setdefault(outlet.name, outlet)

    def _select(self, sets: str | list[str], here: Location) -> list[str] | None:
        """None after a mistake."""
        try:
            text = sets if isinstance(sets, str) else ",".join(sets)
            return self._rack.select(text)
        except RackError as problem:
            what, _, cure = str(problem).partition("; ")
            self._mistake(here, what, cure)
            return None

    def _command(self, words: list[str], here: Location) -> tuple[str, ...]:
        place = (*here, "command")
        known = ", ".join(f"`{each}`" for each in PLACEHOLDERS)
        for unknown in _strangers(words, PLACEHOLDERS):
            self._mistake(place, f"`{unknown}` stands for nothing", f"there are {known}")
        if not any("{state}" in word for word in words):
            self._mistake(
                place, "the command does not say on or off", "write `{state}` where it does"
            )
        program, problem = _program(words[0], self._document.path.parent)
        if problem:
            self._mistake(place, *problem)
        return (program, *words[1:])

    def _mistake(self, location: Location, what: str, cure: str) -> None:
        self.mistakes.append(self._document.mistake(location, what, cure))


def guard_limits(document: Document, file: GuardFile) -> tuple[GuardLimits, list[Mistake]]:
    values = file.model_dump(exclude_none=True)
    mistakes: list[Mistake] = []
    if call := values.get("call"):
        program, problem = _program(call[0], document.path.parent)
        if problem:
            mistakes.append(document.mistake(("guard", "call"), *problem))
        values["call"] = (program, *call[1:])
    limits = GuardLimits(**values)
    return limits, mistakes + list(_contradictions(document, limits))


def _contradictions(document: Document, limits: GuardLimits) -> Iterator[Mistake]:
    """Limits that contradict each other, defaults included."""
    steps = (
        ("warn_celsius", limits.warn_celsius),
        ("drain_celsius", limits.drain_celsius),
        ("cut_celsius", limits.cut_celsius),
    )
    for (low, below), (high, above) in pairwise(steps):
        if above < below + LEAST_STEP_CELSIUS:
            yield document.mistake(
                ("guard", high),
                f"`{high}: {above:g}` is not above `{low}: {below:g}`",
                f"leave at least {LEAST_STEP_CELSIUS:g} °C between them",
            )
    if limits.charge_high_percent < limits.charge_low_percent + LEAST_WINDOW_PERCENT:
        yield document.mistake(
            ("guard", "charge_high_percent"),
            f"a charge window from {limits.charge_low_percent:g} to "
            f"{limits.charge_high_percent:g} %",
            f"leave at least {LEAST_WINDOW_PERCENT:g} between them",
        )
    if limits.silent_seconds < 3 * limits.poll_seconds:
        yield document.mistake(
            ("guard", "silent_seconds"),
            f"{limits.silent_seconds:g} s of silence with a poll every {limits.poll_seconds:g} s",
            "allow at least three polls, since one may be lost",
        )
    known = " and ".join(f"`{each}`" for each in _CALL_PLACEHOLDERS)
    for unknown in _strangers(limits.call, _CALL_PLACEHOLDERS):
        yield document.mistake(
            ("guard", "call"), f"`{unknown}` stands for nothing", f"there are {known}"
        )


def starving(
    document: Document, limits: GuardLimits, outlets: Iterable[Outlet]
) -> Iterator[Mistake]:
    """Outlets that guard could never switch on, since they feed more phones than may charge."""
    largest = max(outlets, key=lambda outlet: len(outlet.phones), default=None)
    most = limits.max_charging
    if largest is not None and most is not None and len(largest.phones) > most:
        fed = len(largest.phones)
        yield document.mistake(
            ("guard", "max_charging"),
            f"outlet {largest.name} feeds {fed} phones, and {most} may charge at the same time",
            f"allow at least {fed}, or give them outlets of their own",
        )


def _strangers(words: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Placeholders that do not exist, each once."""
    found = (each for word in words for each in re.findall(r"\{\w*\}", word))
    return (each for each in dict.fromkeys(found) if each not in known)


def _program(word: str, folder: Path) -> tuple[str, tuple[str, str] | None]:
    """A program with a folder in its name is looked for beside the rack file."""
    if "/" not in word:
        return word, None
    path = (folder / word).absolute()
    if path.is_file() and os.access(path, os.X_OK):
        return str(path), None
    return word, (
        f"no program {path} that may be run",
        "correct its path, which begins at this file's folder, or `chmod +x` it",
    )
