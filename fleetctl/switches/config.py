"""Configuration text of the IOS family as sections, without what is no configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

type Config = Mapping[str, tuple[str, ...]]
"""A configuration in normal form: each line of the top level, with the lines below it."""

# Stars are messages of a switch that is about to reload, which it prints into everything.
_COMMENT = re.compile(
    r"^\s*!|^\*\*\*|^Building configuration|^Current configuration|^Using \d+ out of"
)
_BANNER = re.compile(r"^banner \S+(?: (?P<mark>\^C|\S))?")


class TornTextError(ValueError):
    """The text is no whole configuration; the message says where it ends to make sense."""


def sections(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Top-level lines with their sub-lines, deeper ones left out. Raises TornTextError.

    A configuration that does not end with `end` was cut off somewhere on its way.
    """
    header: str | None = None
    inside: list[str] = []
    depth = 0
    ended = False
    for line in _without_banners(text):
        if _COMMENT.match(line) or not line.strip():
            continue
        words = " ".join(line.split())
        if line[0] == " ":
            if header is None:
                raise TornTextError(f"`{words}` stands below nothing")
            indent = len(line) - len(line.lstrip())
            depth = depth or indent
            if indent <= depth:
                inside.append(words)
            continue
        if header is not None:
            yield header, tuple(inside)
        header, inside, depth, ended = words, [], 0, words == "end"
    if not ended:
        raise TornTextError("it does not end with `end`")


def _without_banners(text: str) -> Iterator[str]:
    """A banner may hold anything, even what looks like configuration."""
    until: str | None = None
    for line in text.splitlines():
        if until is not None:
            until = None if until in line else until
            continue
        match = _BANNER.match(line)
        if not match:
            yield line
            continue
        mark = match["mark"] or "EOF"
        rest = line[match.end() :] if match["mark"] else ""
        until = None if mark in rest else mark
    if until is not None:
        raise TornTextError("a banner does not end")


def to_text(config: Config) -> str:
    """A configuration in normal form as a switch would show it."""
    lines = []
    for header in sorted(config, key=_text_order):
        lines.append(header)
        lines += [f" {line}" for line in config[header]]
    return "\n".join(lines) + "\n"


def differences(wanted: Config, found: Config) -> list[str]:
    """Lines that one of both has, as `- missing` and `+ too much`, with their section."""
    lines = []
    for header in sorted({*wanted, *found}):
        mine, theirs = wanted.get(header), found.get(header)
        if mine == theirs:
            continue
        if mine is None or theirs is None:
            lines.append(f"{'+' if mine is None else '-'} {header}")
            continue
        lines += [f"- {header}: {line}" for line in mine if line not in theirs]
        lines += [f"+ {header}: {line}" for line in theirs if line not in mine]
    return lines


def _text_order(header: str) -> tuple[int, list[int | str]]:
    kinds = ("hostname", "vlan", "interface")
    kind = next((place for place, name in enumerate(kinds) if header.startswith(name)), -1)
    parts: list[int | str] = [
        int(part) if part.isdigit() else part for part in re.split(r"(\d+)", header)
    ]
    return (kind, parts)
