"""Node sets (`phone[001-003]!@drained`) and the number ranges of the rack file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fleetctl.rack.document import did_you_mean
from fleetctl.rack.errors import RackError

MEASURED = re.compile(
    r"(?<![\w.-])\d+(\.\d+)?"
    r"(?= ?(°C|%|(s|MiB|Mb/s|of|a core|child|processes|times|damaged|frames)\b))"
)
"""Numbers in a message that tell how much, not what."""

_MOST_NAMES = 10_000
"""A typing error such as `phone[1-99999999]` must not fill the memory."""


def resolve(node_set: str, names: Sequence[str], groups: Mapping[str, Iterable[str]]) -> list[str]:
    """Members of `node_set`, in the order of `names`. Raises RackError for unknown ones."""
    for group in groups_in(node_set):
        if group not in groups:
            raise RackError(f"no group `@{group}` in this rack; {did_you_mean(group, groups)}")
    chosen = set(_parse(node_set, names, groups))
    unknown = sorted(chosen.difference(names))
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        raise RackError(
            f"no phone {', '.join(unknown[:3])}{more} in this rack; "
            + did_you_mean(unknown[0], names)
        )
    return [name for name in names if name in chosen]


def groups_in(node_set: str) -> list[str]:
    """The groups that are named in it."""
    return re.findall(r"@([\w.-]+)", node_set)


def fold(names: Iterable[str]) -> str:
    """`phone001, phone002, phone003` as `phone[001-003]`."""
    from ClusterShell.NodeSet import NodeSet

    return str(NodeSet.fromlist(list(names), resolver=_resolver([], {})))


def fold_sentences(sentences: Iterable[tuple[str, str]]) -> list[str]:
    """Sentences by the phone that each names, one line for all phones that share one but for what
    was measured, of which the line has the range."""
    owners: dict[str, list[tuple[str, list[str]]]] = {}
    for name, text in sentences:
        # The name as a word of its own: `phone1` is no part of `phone12`.
        shared = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])( \([\d.]+\))?", "\0", text)
        numbers = [found[0] for found in MEASURED.finditer(shared)]
        owners.setdefault(MEASURED.sub("\1", shared), []).append((name, numbers))
    return [_sentence(shared, said) for shared, said in owners.items()]


def same(one: str, other: str) -> bool:
    """Whether two messages differ in what was measured only: every look measures anew."""
    return MEASURED.sub("", one) == MEASURED.sub("", other)


def _sentence(shared: str, said: Sequence[tuple[str, list[str]]]) -> str:
    columns = zip(*(numbers for _, numbers in said), strict=True)
    ranges = iter([_range(numbers) for numbers in columns])
    text = re.sub("\1", lambda _: next(ranges), shared)
    return text.replace("\0", fold(name for name, _ in said))


def _range(numbers: Sequence[str]) -> str:
    lowest, highest = min(numbers, key=float), max(numbers, key=float)
    return lowest if lowest == highest else f"{lowest} to {highest}"


def expand(node_set: str) -> list[str]:
    """Names of a node set without groups, in the order written. Raises RackError."""
    if re.fullmatch(r"[a-z0-9-]+", node_set):
        return [node_set]  # a rack file may name thousands, one by one
    for inside in re.findall(r"\[([^\]]*)\]", node_set):
        numbers = [int(number) for number in re.findall(r"\d+", inside)]
        if numbers != sorted(numbers):
            raise RackError(f"`{node_set}` counts downwards; write its numbers in rising order")
    parts = re.split(r",(?![^\[]*\])", node_set)
    return [name for part in parts for name in _parse(part, [], {})]


def parse_ranges(text: str) -> list[int]:
    """`1-3,7` as [1, 2, 3, 7]. Raises RackError."""
    numbers: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last or last - first >= _MOST_NAMES:
            raise RackError(f"`{text}` is no range; write one such as 1-46 or 1-3,7")
        numbers.extend(range(first, last + 1))
    return numbers


def _parse(node_set: str, names: Sequence[str], groups: Mapping[str, Iterable[str]]) -> list[str]:
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError

    _refuse_huge(node_set)
    try:
        found = NodeSet(node_set, resolver=_resolver(names, groups))
    except (NodeSetException, GroupResolverError, GroupSourceError) as problem:
        raise RackError(
            f"`{node_set}` is no node set: {problem}; write one such as phone[001-003],@sw1"
        ) from None
    return [str(name) for name in found]


def _refuse_huge(node_set: str) -> None:
    """ClusterShell would build every name before anybody could count them."""
    for part in re.split(r"[,!&^](?![^\[\]]*\])", node_set):
        sizes = (int(last) - int(first) + 1 for first, last in re.findall(r"(\d+)-(\d+)", part))
        if math.prod(max(1, size) for size in sizes) > _MOST_NAMES:
            raise RackError(f"`{part}` has over {_MOST_NAMES} members; no rack has so many phones")


def _resolver(names: Sequence[str], groups: Mapping[str, Iterable[str]]) -> Any:
    from ClusterShell.NodeUtils import GroupResolver, GroupSource

    members = {group: ",".join(inside) for group, inside in groups.items()}
    return GroupResolver(GroupSource("rack", members, allgroups=",".join(names)))
