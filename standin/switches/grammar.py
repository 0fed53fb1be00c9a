"""Command lines as such switches take them: abbreviations, arguments, and three ways to be wrong.

A pattern is words and arguments. Words may be shortened as long as no other word begins so.
Arguments are written in capitals: `LINE` takes the rest, the others are in `_ARGUMENTS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pattern:
    """One form of one command; `action` is the name of what carries it out."""

    tokens: tuple[str, ...]
    action: str


@dataclass(frozen=True, slots=True)
class Match:
    """A line that was understood, its arguments in the order in which they stand."""

    action: str
    words: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Invalid:
    """No command has such a word here; `position` counts characters, `token` words, from 0."""

    position: int
    token: int
    word: str


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The line ends too early."""


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A shortened word could be several."""

    token: int
    word: str


type Parsed = Match | Invalid | Incomplete | Ambiguous


def _number(low: int, high: int) -> Callable[[str], bool]:
    return lambda word: word.isascii() and word.isdigit() and low <= int(word) <= high


def _is_address(word: str) -> bool:
    parts = word.split(".")
    return len(parts) == 4 and all(_number(0, 255)(part) for part in parts)


def _is_prefix(word: str) -> bool:
    address, slash, length = word.partition("/")
    return bool(slash) and _is_address(address) and _number(0, 32)(length)


def _is_vlan_list(word: str) -> bool:
    return all(
        re.fullmatch(r"\d+(-\d+)?", part) and all(_number(1, 4094)(n) for n in part.split("-"))
        for part in word.split(",")
    )


_ARGUMENTS: dict[str, Callable[[str], bool]] = {
    "WORD": lambda _: True,
    "VLAN": _number(1, 4094),
    "VLANS": _is_vlan_list,
    "GROUP": _number(1, 255),
    "MINUTES": _number(1, 120),
    "COUNT": _number(0, 100_000),
    "MTU": _number(1500, 9198),
    "LEVEL": lambda word: re.fullmatch(r"\d{1,3}(\.\d{1,2})?", word) is not None,
    "ADDRESS": _is_address,
    "PREFIX": _is_prefix,
    "TIME": lambda word: re.fullmatch(r"\d{1,2}:\d{2}:\d{2}", word) is not None,
    "INTERFACE": lambda word: re.fullmatch(r"[A-Za-z-]+\d[\d/]*", word) is not None,
    "NUMBER": lambda word: re.fullmatch(r"\d[\d/]*", word) is not None,
}


def patterns(table: Iterable[tuple[str, str]]) -> tuple[Pattern, ...]:
    """A table of `(pattern, action)`."""
    return tuple(Pattern(tuple(text.split()), action) for text, action in table)


def parse(line: str, table: Sequence[Pattern]) -> Parsed:
    """Understand one line, or say in which way it is wrong."""
    words = [(match.start(), match[0]) for match in re.finditer(r"\S+", line)]
    alive: list[tuple[Pattern, tuple[str, ...]]] = [(pattern, ()) for pattern in table]
    for place, (position, word) in enumerate(words):
        rests = [item for item in alive if _token(item[0], place) == "LINE"]
        others = [item for item in alive if _token(item[0], place) not in ("LINE", None)]
        fitting = _fitting(others, place, word)
        if isinstance(fitting, Ambiguous):
            return fitting
        if not fitting and rests:
            pattern, arguments = rests[0]
            said = tuple(token for token in pattern.tokens[:place])
            return Match(pattern.action, said, (*arguments, line[position:].rstrip()))
        if not fitting:
            return Invalid(position, place, word)
        alive = fitting
    done = [item for item in alive if len(item[0].tokens) == len(words)]
    if not done:
        return Incomplete()
    pattern, arguments = done[0]
    return Match(pattern.action, pattern.tokens, arguments)


def _token(pattern: Pattern, place: int) -> str | None:
    return pattern.tokens[place] if place < len(pattern.tokens) else None


def _fitting(
    items: list[tuple[Pattern, tuple[str, ...]]], place: int, word: str
) -> list[tuple[Pattern, tuple[str, ...]]] | Ambiguous:
    """What is left after this word: a keyword comes before an argument, a whole one first."""
    keywords = {
        token
        for pattern, _ in items
        if (token := pattern.tokens[place]) not in _ARGUMENTS and token.startswith(word.lower())
    }
    if word.lower() in keywords:
        keywords = {word.lower()}
    if len(keywords) > 1:
        return Ambiguous(place, word)
    if keywords:
        return [item for item in items if item[0].tokens[place] in keywords]
    return [
        (pattern, (*arguments, word))
        for pattern, arguments in items
        if (kind := _ARGUMENTS.get(pattern.tokens[place])) is not None and kind(word)
    ]
