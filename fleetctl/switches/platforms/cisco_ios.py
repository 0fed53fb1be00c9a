"""Cisco IOS and IOS XE: Catalyst switches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from fleetctl.switches.config import Config
from fleetctl.switches.guards import Guard, ReloadTimer, RevertTimer
from fleetctl.switches.intent import Cut, PortIntent, SwitchIntent
from fleetctl.switches.platforms.ios_like import ACCESS, BUNDLE, SNMP_LIST, IosLike

# Shortest unambiguous beginnings, as tables print them.
_KINDS = {
    "fa": "FastEthernet",
    "gi": "GigabitEthernet",
    "te": "TenGigabitEthernet",
    "tw": "TwoGigabitEthernet",
    "fi": "FiveGigabitEthernet",
    "twe": "TwentyFiveGigE",
    "fo": "FortyGigabitEthernet",
    "hu": "HundredGigE",
    "po": "Port-channel",
    "vl": "Vlan",
    "ap": "AppGigabitEthernet",
}


class Switch(IosLike):
    """Catalysts run VLANs from a database of their own unless VTP is transparent."""

    name = "cisco_ios"
    bundle_interface = "Port-channel"
    vlan_names_are_unique = True
    # Some lines that begin so are remarks, and some are messages of its log.
    error_pattern = (
        r"^(?:%(?!Warning:|Portfast has|\s?Access VLAN does not exist|[A-Z0-9_]+-\d-[A-Z0-9_]+:).*"
        r"|Command rejected:.*)$"
    )
    saved = "[OK]"
    # Without an archive there is no revert timer, and the VLANs of a VTP server are not shown.
    prerequisites: ClassVar[dict[str, tuple[str, ...]]] = {
        r"vtp mode (transparent|off)$": ("vtp mode transparent",),
        r"archive$": ("archive", "path flash:phonerack"),
    }
    global_lines = re.compile(r"(vtp mode|spanning-tree mode|system mtu) |lldp run$")

    power = "show power inline"

    def cut_lines(self, how: Cut) -> tuple[str, ...]:
        return ("power inline never",) if how == "power" else ("shutdown",)

    def guards(self) -> tuple[Guard, ...]:
        return (RevertTimer(), ReloadTimer())

    def interfaces(self, ports: int) -> tuple[str, ...]:
        return tuple(f"GigabitEthernet1/0/{number}" for number in range(1, ports + 1))

    def long_name(self, interface: str) -> str:
        match = re.fullmatch(r"([A-Za-z-]+) ?(\d[\d/.]*)", interface)
        if not match:
            return interface
        given = match[1].lower()
        short = [start for start in _KINDS if given.startswith(start)]
        full = [
            kind for kind in (_KINDS[start] for start in short) if kind.lower().startswith(given)
        ]
        return f"{full[-1]}{match[2]}" if full else interface

    def intended_globals(self, intent: SwitchIntent) -> Iterator[str]:
        yield "vtp mode transparent"
        yield "spanning-tree mode rapid-pvst"
        yield "lldp run"
        if intent.mtu_bytes != 1500:
            yield f"system mtu {intent.mtu_bytes}"

    def intended_port(self, port: PortIntent, intent: SwitchIntent) -> Iterator[str]:
        yield f"description {port.description}"
        if port.role == "uplink":
            yield from self.trunk_lines(intent, port.native)
            if port.bundle:
                yield f"{BUNDLE}{port.bundle} mode active"
            return
        yield "switchport mode access"
        if port.role == "unused":
            yield "shutdown"
            return
        yield f"{ACCESS}{intent.vlan}"
        yield "storm-control broadcast level 1.00"
        yield "spanning-tree portfast"
        yield "spanning-tree bpduguard enable"
        if port.cut:
            yield from self.cut_lines(port.cut)

    def community_line(self, community: str) -> str:
        return f"snmp-server community {community} RO {SNMP_LIST}"

    def completed(self, backup: Config, running: Config) -> Config:
        """The VLANs of a VTP server stand in none of its configurations; they stay, and so does
        the mode in which they can be seen."""
        if any(header.startswith("vtp mode ") for header in backup):
            return backup
        unseen = ("vlan ", "vtp mode ")
        return dict(backup) | {
            header: lines for header, lines in running.items() if header.startswith(unseen)
        }

    def normal_line(self, line: str) -> str | None:
        if re.fullmatch(r"spanning-tree portfast( edge)?", line):
            return "spanning-tree portfast"
        if match := re.fullmatch(r"(storm-control \w+ level) ([\d.]+)(?: ([\d.]+))?", line):
            # The second level, where storms end, is the first unless it is given.
            levels = [f"{float(level):.2f}" for level in match.group(2, 3) if level]
            return f"{match[1]} {' '.join(dict.fromkeys(levels))}"
        if match := re.fullmatch(r"(?:\d+ )?(permit .*)", line):
            return match[1].replace("permit host ", "permit ")
        if re.fullmatch(r"vtp mode (off|transparent)", line):
            return "vtp mode transparent"
        return line
