"""Switches as they leave their makers, and as a person at the console makes them reachable."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Interface

from standin.switches.editor import Kind
from standin.switches.state import Interface, Settings


def port_names(kind: Kind, ports: int) -> tuple[str, ...]:
    """What a switch usually calls its ports."""
    stem = "GigabitEthernet1/0/" if kind == "ios" else "Ethernet"
    return tuple(f"{stem}{number}" for number in range(1, ports + 1))


def reachable_settings(kind: Kind, ports: Sequence[str], vlan: int, address: str) -> Settings:
    """A new switch, all of whose ports and its own `address` (with its prefix) are in one VLAN."""
    settings = factory_settings(kind, ports)
    if vlan != 1:
        settings.vlans[vlan] = f"VLAN{vlan:04}"
        for name in ports:
            settings.interfaces[name].access_vlan = vlan
    ip = IPv4Interface(address)
    written = f"{ip.ip} {ip.netmask}" if kind == "ios" else str(ip)
    settings.interfaces[f"Vlan{vlan}"] = Interface(mode="access", address=written)
    return settings


def factory_settings(kind: Kind, ports: Sequence[str]) -> Settings:
    """The settings of a new switch whose ports bear these names."""
    if kind == "ios":
        interfaces = {name: Interface() for name in ports}
        interfaces["Vlan1"] = Interface(mode="access", shutdown=True)
        return Settings("Switch", interfaces, vtp="server")
    interfaces = {name: Interface(mode="access") for name in ports}
    interfaces["Management1"] = Interface(mode="access")
    return Settings("localhost", interfaces, spanning_tree="mstp", lldp=True)
