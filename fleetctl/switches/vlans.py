"""Sets of VLANs as switches write them: `10,20,30-35`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby

ALL = frozenset(range(1, 4095))
"""What a trunk without a list carries."""


def parse_vlans(text: str) -> frozenset[int]:
    """`10,20,30-35`, `all`, `none` or `except 5,6`. Raises ValueError."""
    if text == "all":
        return ALL
    if text == "none":
        return frozenset()
    if text.startswith("except "):
        return ALL - parse_vlans(text.removeprefix("except "))
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not 1 <= low <= high <= 4094:
            raise ValueError(f"`{part}` is no range of VLANs")
        found.update(range(low, high + 1))
    return frozenset(found)


def fold_vlans(vlans: Collection[int]) -> str:
    """The shortest text of a set, in rising order; `none` for the empty set."""
    return ",".join(_runs(vlans)) or "none"


def chunked_vlans(vlans: Collection[int], most_chars: int) -> Iterator[str]:
    """`fold_vlans` in parts of up to `most_chars`: a command line is only so long."""
    part = ""
    for run in _runs(vlans):
        if part and len(part) + 1 + len(run) > most_chars:
            yield part
            part = ""
        part = f"{part},{run}" if part else run
    if part:
        yield part


def _runs(vlans: Collection[int]) -> Iterator[str]:
    for _, run in groupby(enumerate(sorted(vlans)), key=lambda item: item[1] - item[0]):
        members = [vlan for _, vlan in run]
        first, last = members[0], members[-1]
        # Two neighbours are written singly by IOS, which counts as the same.
        yield f"{first}" if first == last else f"{first}-{last}"
