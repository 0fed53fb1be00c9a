"""What the rack file wants of a switch, in words of no platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from fleetctl.rack import Rack, Switch

type Cut = Literal["carrier", "power"]
"""How a phone's port is cut off: shut, or no longer feeding the phone's adapter."""

CUT_MARK = "-off"
"""Behind the description of a port that is cut off."""

type Role = Literal["phone", "uplink", "unused", "reserved"]


@dataclass(frozen=True, slots=True)
class PortIntent:
    """One port. `number` as in the rack file, `interface` as on the switch.

    `label` makes its description: the phone's name, or where an uplink leads to. `bundle` is
    the number of the LACP bundle that it belongs to. Reserved ports are never touched. A port that
    somebody has cut off stays so. A `native` uplink leads to a switch that knows no VLANs: the
    phones' is untagged there.
    """

    number: int
    interface: str
    role: Role
    label: str
    bundle: int | None = None
    cut: Cut | None = None
    native: bool = False

    @property
    def description(self) -> str:
        """Its label, and whether it is cut off on purpose: whoever looks at the switch, the
        exporter too, sees it there."""
        return f"{self.label}{CUT_MARK}" if self.cut else self.label


@dataclass(frozen=True, slots=True)
class BundleIntent:
    """An LACP bundle of uplinks; numbers count from 1."""

    number: int
    label: str


@dataclass(frozen=True)
class SwitchIntent:
    """One switch. `vlans` names all VLANs, `vlan` is the phones', `mtu_bytes` their network's.

    `address` is where phonerack reaches it. `snmp_community` is the name of a secret, and
    `readers` are the only addresses that may use it: the controller and the services host.
    """

    switch: str
    address: str | None
    hostname: str
    ports: tuple[PortIntent, ...]
    bundles: tuple[BundleIntent, ...]
    vlan: int
    vlans: Mapping[int, str]
    mtu_bytes: int
    location: str
    snmp_community: str | None
    readers: tuple[str, ...]

    @cached_property
    def by_interface(self) -> dict[str, PortIntent]:
        return {port.interface: port for port in self.ports}

    @cached_property
    def owned(self) -> frozenset[str]:
        """Interfaces that phonerack configures: all but the reserved ones."""
        return frozenset(port.interface for port in self.ports if port.role != "reserved")


def intend(
    rack: Rack,
    switch: Switch,
    interfaces: tuple[str, ...],
    cuts: Mapping[str, Cut] = MappingProxyType({}),
) -> SwitchIntent:
    """What `rack` wants of `switch`, whose ports 1, 2, … bear the names `interfaces`.

    `cuts` are phones whose port is cut off.
    """
    simple = {name for name, other in rack.switches.items() if other.platform == "unmanaged"}
    wide = [
        bundle for bundle in switch.bundles if len(bundle.ports) > 1 and bundle.to not in simple
    ]
    bundles = tuple(
        BundleIntent(number, f"uplink-{bundle.to}") for number, bundle in enumerate(wide, 1)
    )
    member_of = {port: number for number, bundle in enumerate(wide, 1) for port in bundle.ports}
    leads_to = {port: bundle.to for bundle in switch.bundles for port in bundle.ports}
    phones = {
        phone.port: phone.name for phone in rack.phones.values() if phone.switch == switch.name
    }

    def port(number: int) -> PortIntent:
        interface = interfaces[number - 1]
        if number in switch.reserved:
            return PortIntent(number, interface, "reserved", "reserved")
        if number in switch.uplinks:
            to = leads_to.get(number, "")
            label, bundle = f"uplink-{to or number}", member_of.get(number)
            return PortIntent(number, interface, "uplink", label, bundle, native=to in simple)
        if number in phones:
            name = phones[number]
            return PortIntent(number, interface, "phone", name, cut=cuts.get(name))
        return PortIntent(number, interface, "unused", "unused")

    network = rack.network
    return SwitchIntent(
        switch=switch.name,
        address=switch.address,
        hostname=switch.hostname,
        ports=tuple(port(number) for number in range(1, switch.ports + 1)),
        bundles=bundles,
        vlan=network.vlan,
        vlans=network.vlans,
        mtu_bytes=network.mtu,
        location=rack.name,
        snmp_community=network.snmp_community,
        readers=tuple(dict.fromkeys(filter(None, (network.controller, network.services)))),
    )
