"""What a switch's ports are set to, as Open vSwitch's tables say it. Pure values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from standin.switches.state import PortEffect

NO_VLAN = 4095
"""Where frames of a port without a VLAN go: to protected ports only, which pass none on."""

FIRST_HIDDEN = 2001
"""Numbers of ports that the switch itself does not know, for OpenFlow and the MAC table."""

BUNDLE = "Port-channel"


@dataclass(frozen=True, slots=True)
class Wire:
    """A network device in a switch's port. `number` is the port's in Open vSwitch.

    `leads_to` is the switch at the other end, where there is one.
    """

    device: str
    port: str
    number: int
    leads_to: str = ""


@dataclass(frozen=True, slots=True)
class PortRow:
    """One row of the table Port. `devices` and their numbers are its rows of Interface."""

    name: str
    wires: tuple[Wire, ...]
    effect: PortEffect
    bundled: bool = False
    plain: bool = False
    """Of a switch that knows no VLANs: whatever comes goes everywhere, tagged or not."""

    blocked: bool = False
    """As a spanning tree blocks a port: nothing passes, though it has its carrier."""

    @property
    def leads_to(self) -> str:
        return self.wires[0].leads_to

    @property
    def columns(self) -> dict[str, Any]:
        if self.plain:
            return _columns("trunk", [], [])
        effect, trunk = self.effect, bool(self.effect.tagged) and not self.blocked
        mode = "access"
        if trunk:
            mode = "trunk" if effect.untagged is None else "native-untagged"
        lost = self.blocked or (effect.untagged is None and not trunk)
        tag = NO_VLAN if lost else effect.untagged
        return _columns(
            mode,
            [] if tag is None else [tag],
            sorted(effect.vlans) if trunk else [],
            protected=lost,
            **(_BUNDLED if self.bundled else {}),
        )


_BUNDLED: dict[str, Any] = {
    "lacp": "active",
    "bond_mode": "balance-slb",
    "other_config": ["map", [["lacp-time", "fast"]]],
}


def _columns(mode: str, tag: list[int], trunks: list[int], **others: Any) -> dict[str, Any]:
    """All that is ours of a row of Port; what `others` leaves out is as in a new one."""
    usual = {
        "protected": False,
        "lacp": as_set([]),
        "bond_mode": as_set([]),
        "other_config": as_map({}),
    }
    ours = {"vlan_mode": mode, "tag": as_set(tag), "trunks": as_set(trunks)}
    return {**ours, **usual, **others}


def rows(
    wires: Iterable[Wire], effects: Mapping[str, PortEffect], dead: Collection[str] = ()
) -> dict[str, PortRow]:
    """The rows for wired ports by name; members of a bundle share one. A port that no effect is
    known of is not there.

    As by a spanning tree, of several ways to one switch only one is open: the bundle if there is
    one, else the first cable whose device is not `dead`. Open vSwitch's own spanning tree has no
    room for bundles: under it they are never flooded.
    """
    found: dict[str, PortRow] = {}
    for wire in wires:
        effect = effects.get(wire.port)
        if effect is None:
            continue
        if effect.group is None:
            found[wire.port] = PortRow(wire.port, (wire,), effect)
            continue
        name = f"{BUNDLE}{effect.group}"
        others = found[name].wires if name in found else ()
        found[name] = PortRow(name, (*others, wire), effect, bundled=True)
    ways = sorted(found.values(), key=lambda row: (not row.bundled, row.wires[0].device in dead))
    opened = {row.leads_to: row.name for row in reversed(ways)}
    return {
        name: replace(row, blocked=bool(row.leads_to) and opened[row.leads_to] != name)
        for name, row in found.items()
    }


def plain_rows(wires: Iterable[Wire]) -> dict[str, PortRow]:
    """The rows of a switch that nobody configures."""
    everything = PortEffect(True, None, frozenset())
    return {wire.port: PortRow(wire.port, (wire,), everything, plain=True) for wire in wires}


def as_set(values: Iterable[Any]) -> list[Any]:
    return ["set", list(values)]


def as_map(values: Mapping[str, str]) -> list[Any]:
    return ["map", [[key, value] for key, value in values.items()]]


def of_map(column: Any) -> dict[str, str]:
    """A map as the database tells it."""
    return dict(column[1])


def of_set(column: Any) -> list[Any]:
    """A set as the database tells it: one that has a single member is that member."""
    if isinstance(column, list) and column[:1] == ["set"]:
        return list(column[1])
    return [column]


_LEARNT = re.compile(r"\s*(\d+)\s+(\d+)\s+([0-9a-f:]{17})\s+\d+\s*")


def learnt(table: str) -> Iterator[tuple[int, int, str]]:
    """Port number, VLAN and MAC of each line of `fdb/show` that came by a port that forwards."""
    for line in table.splitlines():
        if (found := _LEARNT.fullmatch(line)) and int(found[2]) != NO_VLAN:
            yield int(found[1]), int(found[2]), found[3]
