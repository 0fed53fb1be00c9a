"""What a command line drives: ports that carry VLANs. This one is made of plain values.

It stands in for a network where tests need only know who would reach whom: hosts in ports, cables
between switches, MAC tables and LLDP that follow from both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from standin.switches.state import PortEffect, nominal_mbits


class Learnt(NamedTuple):
    """One entry of a MAC table; the MAC in the form `aa:bb:cc:dd:ee:ff`."""

    vlan: int
    mac: str
    port: str


class Neighbour(NamedTuple):
    """Who speaks LLDP at a port."""

    port: str
    hostname: str
    remote_port: str


class Counters(NamedTuple):
    """What has passed one port, or has not, since the switch came up."""

    octets_in: int = 0
    frames_in: int = 0
    octets_out: int = 0
    frames_out: int = 0
    errors_in: int = 0
    errors_out: int = 0
    discards_in: int = 0
    discards_out: int = 0


class DataPlane(Protocol):
    """The ports behind one command line."""

    def apply(self, effects: Mapping[str, PortEffect]) -> None:
        """Make every port do what it is set to."""

    def own(self, addresses: Mapping[int, str]) -> None:
        """Have the switch itself answer at these addresses, each in its VLAN."""

    def linked(self, port: str) -> bool:
        """Whether the port has a carrier."""

    def speed_mbits(self, port: str) -> int:
        """What a port with a carrier has agreed on with its other end; 0 without one."""

    def learnt(self) -> list[Learnt]:
        """The MAC table."""

    def neighbours(self) -> list[Neighbour]:
        """Who was heard by LLDP, whether LLDP is on or not."""

    def counters(self, port: str, /) -> Counters:
        """What has passed the port."""

    def manageable(self) -> bool:
        """Whether the controller's packets reach this switch at all."""


class End(NamedTuple):
    """One port of one switch."""

    switch: str
    port: str


@dataclass
class MemoryNetwork:
    """Switches, the cables between them, and the hosts in their ports."""

    cables: list[tuple[End, End]] = field(default_factory=list)
    hosts: dict[str, End] = field(default_factory=dict)
    effects: dict[str, dict[str, PortEffect]] = field(default_factory=dict)
    hostnames: dict[str, str] = field(default_factory=dict)
    manager: str | None = None
    """MAC of the host from which switches are managed; None: by a network of their own."""

    management_vlan: int = 1
    traffic: dict[End, Counters] = field(default_factory=dict)
    speeds: dict[End, int] = field(default_factory=dict)
    """Megabits a second of links that are slower than a gigabit."""

    def plane(self, switch: str) -> MemoryPlane:
        return MemoryPlane(self, switch)

    def reaches(self, one: str, other: str) -> bool:
        """Whether frames of the host `one` come to the host `other`, both by their MACs."""
        if one not in self.hosts or other not in self.hosts:
            return False
        target = self.hosts[other]
        effect = self._effect(target)
        return any(
            switch == target.switch and effect.untagged == vlan
            for switch, vlan, _ in self._flood(self.hosts[one])
        )

    def manageable(self, switch: str) -> bool:
        """Whether frames of the manager come to the switch's own address."""
        if self.manager is None:
            return True
        flood = self._flood(self.hosts[self.manager])
        return any(at == switch and vlan == self.management_vlan for at, vlan, _ in flood)

    def heard(self, switch: str) -> Iterator[Learnt]:
        """Each host with the port of `switch` behind which it is heard."""
        for mac, end in self.hosts.items():
            for at, vlan, port in self._flood(end):
                if at == switch:
                    yield Learnt(vlan, mac, port)

    def cable_at(self, end: End) -> End | None:
        """The other end of the cable in a port, if both ends pass frames."""
        for one, other in self.cables:
            for here, there in ((one, other), (other, one)):
                if here == end:
                    return there if self._alive(here, there) else None
        return None

    def _alive(self, one: End, other: End) -> bool:
        """A bundle whose other end knows nothing of it passes nothing."""
        left, right = self._effect(one), self._effect(other)
        return left.up and right.up and (left.group is None) == (right.group is None)

    def _effect(self, end: End) -> PortEffect:
        nothing = PortEffect(False, None, frozenset())
        return self.effects.get(end.switch, {}).get(end.port, nothing)

    def _flood(self, start: End) -> Iterator[tuple[str, int, str]]:
        """Switches and VLANs that a frame from the host at `start` comes to, with the port."""
        effect = self._effect(start)
        if not effect.up or effect.untagged is None:
            return
        todo = [(start.switch, effect.untagged, start.port)]
        seen: set[tuple[str, int]] = set()
        while todo:
            switch, vlan, port = todo.pop(0)
            if (switch, vlan) in seen:
                continue
            seen.add((switch, vlan))
            yield switch, vlan, port
            for name, out in self.effects.get(switch, {}).items():
                there = self.cable_at(End(switch, name))
                if name != port and there and vlan in out.vlans:
                    tagged = out.untagged != vlan
                    into = self._effect(there)
                    inner = vlan if tagged else into.untagged
                    if inner is not None and (not tagged or vlan in into.tagged):
                        todo.append((there.switch, inner, there.port))


@dataclass
class MemoryPlane:
    """One switch of a MemoryNetwork."""

    network: MemoryNetwork
    switch: str

    def apply(self, effects: Mapping[str, PortEffect]) -> None:
        self.network.effects[self.switch] = dict(effects)

    def own(self, _: Mapping[int, str]) -> None:
        """Where the switch is managed, the network knows."""

    def linked(self, port: str) -> bool:
        end = End(self.switch, port)
        effect = self.network.effects.get(self.switch, {}).get(port)
        plugged = end in self.network.hosts.values() or self.network.cable_at(end) is not None
        return bool(effect and effect.up and plugged)

    def speed_mbits(self, port: str) -> int:
        if not self.linked(port):
            return 0
        held = self.network.effects[self.switch][port].speed_mbits or nominal_mbits(port)
        return min(held, self.network.speeds.get(End(self.switch, port), held))

    def learnt(self) -> list[Learnt]:
        return sorted(self.network.heard(self.switch))

    def neighbours(self) -> list[Neighbour]:
        found = []
        for port in self.network.effects.get(self.switch, {}):
            there = self.network.cable_at(End(self.switch, port))
            if there:
                name = self.network.hostnames.get(there.switch, there.switch)
                found.append(Neighbour(port, name, there.port))
        return found

    def counters(self, port: str) -> Counters:
        return self.network.traffic.get(End(self.switch, port), Counters())

    def manageable(self) -> bool:
        return self.network.manageable(self.switch)
