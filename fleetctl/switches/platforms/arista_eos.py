"""Arista EOS."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fleetctl.switches.guards import CommitTimer, Guard
from fleetctl.switches.intent import Cut, PortIntent, SwitchIntent
from fleetctl.switches.platforms.ios_like import ACCESS, BUNDLE, SNMP_LIST, IosLike

_KINDS = {
    "et": "Ethernet",
    "po": "Port-Channel",
    "ma": "Management",
    "vl": "Vlan",
    "lo": "Loopback",
}


class Switch(IosLike):
    """EOS speaks LLDP by itself, switches frames of any MTU, and has access ports by default."""

    name = "arista_eos"
    bundle_interface = "Port-Channel"
    saved = "Copy completed successfully"
    global_lines = re.compile(r"spanning-tree mode |no lldp run$")

    power = "show poe"

    def cut_lines(self, how: Cut) -> tuple[str, ...]:
        # A port that is shut goes on feeding its device unless it is told not to; one that does
        # not feed it may still have it linked, fed by something else.
        return ("poe disabled", "shutdown") if how == "power" else ("shutdown",)

    def guards(self) -> tuple[Guard, ...]:
        return (CommitTimer(),)

    def interfaces(self, ports: int) -> tuple[str, ...]:
        return tuple(f"Ethernet{number}" for number in range(1, ports + 1))

    def long_name(self, interface: str) -> str:
        match = re.fullmatch(r"([A-Za-z-]+) ?(\d[\d/.]*)", interface)
        if not match:
            return interface
        kind = _KINDS.get(match[1].lower()[:2], "")
        return f"{kind}{match[2]}" if kind.lower().startswith(match[1].lower()) else interface

    def intended_globals(self, _: SwitchIntent) -> Iterator[str]:
        yield "spanning-tree mode rapid-pvst"

    def intended_port(self, port: PortIntent, intent: SwitchIntent) -> Iterator[str]:
        yield f"description {port.description}"
        if port.bundle:
            # What the members of a bundle carry is said at the bundle.
            yield f"{BUNDLE}{port.bundle} mode active"
        elif port.role == "uplink":
            yield from self.trunk_lines(intent, port.native)
        elif port.role == "unused":
            yield "shutdown"
        else:
            yield f"{ACCESS}{intent.vlan}"
            yield "storm-control broadcast level 1"
            yield "spanning-tree portfast"
            yield "spanning-tree bpduguard enable"
            if port.cut:
                yield from self.cut_lines(port.cut)

    def community_line(self, community: str) -> str:
        return f"snmp-server community {community} ro {SNMP_LIST}"

    def normal_line(self, line: str) -> str | None:
        if line == "switchport mode access":
            return None
        if re.fullmatch(r"spanning-tree portfast( edge)?", line):
            return "spanning-tree portfast"
        if match := re.fullmatch(r"(storm-control \w+ level) ([\d.]+)", line):
            return f"{match[1]} {float(match[2]):g}"
        if match := re.fullmatch(r"(?:\d+ )?(permit .*)", line):
            return match[1].replace("permit host ", "permit ")
        return line
