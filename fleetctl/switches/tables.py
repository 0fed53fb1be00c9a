"""Tables that switches print, by ntc-templates. What cannot be read is unknown, never empty."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from fleetctl.rack.macs import normal_mac
from fleetctl.switches.cabling import View
from fleetctl.switches.errors import UnreadableError
from fleetctl.switches.intent import SwitchIntent
from fleetctl.switches.platforms.base import Platform

MAC_TABLE = "show mac address-table"
NEIGHBOURS = "show lldp neighbors"
PORTS = "show interfaces status"
_POWER = "show power inline"

_HEADINGS = {
    MAC_TABLE: "Mac Address",
    NEIGHBOURS: "Device ID",
    PORTS: "Status",
    _POWER: "Interface",
}
"""Without these words it is another answer, such as that LLDP is off."""


def read_view(platform: Platform, intent: SwitchIntent, texts: Mapping[str, str]) -> View:
    """What a switch has heard, from its answers by command. Raises UnreadableError."""
    ports = _ports(platform, intent)
    macs: dict[int, set[str]] = {}
    for mac, interface in read_macs(platform, intent.switch, texts[MAC_TABLE]):
        if interface in ports:
            macs.setdefault(ports[interface], set()).add(mac)
    try:
        heard = read_neighbours(platform, intent.switch, texts[NEIGHBOURS])
    except UnreadableError:
        neighbours = None
    else:
        neighbours = {ports[name]: said for name, said in heard.items() if name in ports}
    return View({port: frozenset(found) for port, found in macs.items()}, neighbours)


def _ports(platform: Platform, intent: SwitchIntent) -> dict[str, int]:
    """Port numbers by interface; a bundle is its first port."""
    ports = {port.interface: port.number for port in intent.ports}
    for port in reversed(intent.ports):
        if port.bundle:
            ports[platform.long_name(f"Po{port.bundle}")] = port.number
    return ports


def read_macs(platform: Platform, switch: str, text: str) -> list[tuple[str, str]]:
    """MACs in normal form with the interface behind which each is. Raises UnreadableError.

    A table without entries counts as unreadable: the switch that answered has at least heard us.
    """
    rows = _rows(platform, switch, MAC_TABLE, text)
    if not rows:
        raise UnreadableError(
            switch, f"`{MAC_TABLE}` named nobody", "look at it by hand; cabling there is unknown"
        )
    return [
        (normal_mac(row.get("destination_address") or row["mac_address"]), platform.long_name(name))
        for row in rows
        for name in row["destination_port"]
    ]


def read_neighbours(platform: Platform, switch: str, text: str) -> dict[str, str]:
    """Hostnames, without domain, of who speaks LLDP, by interface. Raises UnreadableError."""
    rows = _rows(platform, switch, NEIGHBOURS, text)
    return {
        platform.long_name(row["local_interface"]): row["neighbor_name"].partition(".")[0]
        for row in rows
    }


class Link(NamedTuple):
    """One row of the ports: `connected`, `notconnect`, `disabled`; `a-full`; `a-1000` or `1G`."""

    status: str
    duplex: str
    speed: str


class Feeding(NamedTuple):
    """What a port does for a device that wants power from it; None is what is not known."""

    enabled: bool | None
    watts: float | None


def read_ports(platform: Platform, switch: str, text: str) -> dict[str, Link]:
    """Ports by interface. Raises UnreadableError."""
    return {
        platform.long_name(row["port"]): Link(row["status"], row["duplex"], row["speed"])
        for row in _rows(platform, switch, PORTS, text)
    }


def read_power(platform: Platform, switch: str, text: str) -> dict[str, Feeding]:
    """Ports that can feed devices, by interface; none where the switch has no such ports.

    Raises UnreadableError.
    """
    if re.search(r"^\s*%", text, re.MULTILINE):
        return {}
    if platform.power != _POWER:
        # Which ports feed devices is all that counts on being understood.
        ports = re.findall(r"^([A-Za-z]+\d[\d/]*)\s", text, re.MULTILINE)
        return {platform.long_name(port): Feeding(None, None) for port in ports}
    found = {}
    for row in _rows(platform, switch, _POWER, text):
        is_on = row["operational_status"] == "on"
        watts = float(row["power"]) if is_on else 0.0
        found[platform.long_name(row["interface"])] = Feeding(row["admin_status"] != "off", watts)
    return found


def _rows(platform: Platform, switch: str, command: str, text: str) -> list[dict[str, str]]:
    from ntc_templates.parse import ParsingException, parse_output
    from textfsm import TextFSMError

    try:
        rows: list[dict[str, str]] = parse_output(platform.name, command, text)
    except (ParsingException, TextFSMError) as problem:
        line = str(problem).rpartition("Input Line: ")[2].strip().rstrip(".")
        raise UnreadableError(
            switch, f"`{command}` cannot be read at `{line}`", "look at it by hand"
        ) from None
    if _HEADINGS[command] not in text:
        raise UnreadableError(switch, f"`{command}` printed no table", "look at it by hand")
    return rows
