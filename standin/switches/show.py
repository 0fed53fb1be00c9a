"""Configurations as text, in the order and the words of each kind of switch."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby

from standin.switches.state import ALL_VLANS, Interface, Settings


def fold(vlans: Collection[int]) -> str:
    """`10,20,30-35`; two neighbours stand singly."""
    parts = []
    for _, run in groupby(enumerate(sorted(vlans)), key=lambda item: item[1] - item[0]):
        numbers = [number for _, number in run]
        if len(numbers) > 2:
            parts.append(f"{numbers[0]}-{numbers[-1]}")
        else:
            parts += [str(number) for number in numbers]
    return ",".join(parts)


def ios_config(settings: Settings) -> Iterator[str]:
    """Running configuration of an IOS switch, below the lines that count its bytes."""
    yield from ("!", "version 15.2", "no service pad", "service timestamps debug datetime msec")
    yield from ("!", f"hostname {settings.hostname}", "!")
    if settings.enable_secret:
        yield from (f"enable secret 5 {settings.enable_secret}", "!")
    for name, secret in settings.users.items():
        yield f"username {name} privilege 15 secret 5 {secret}"
    yield from ("no aaa new-model", *settings.other)
    if settings.mtu_bytes != 1500:
        yield f"system mtu {settings.mtu_bytes}"
    if settings.vtp == "transparent":
        yield "vtp mode transparent"
    yield from (
        "!",
        f"spanning-tree mode {settings.spanning_tree}",
        "spanning-tree extend system-id",
    )
    if settings.archive_path:
        yield from ("archive", f" path {settings.archive_path}", "!")
    if settings.vtp == "transparent":
        for vlan, name in sorted(settings.vlans.items()):
            yield f"vlan {vlan}"
            if name != f"VLAN{vlan:04}":
                yield f" name {name}"
            yield "!"
    if settings.lldp:
        yield from ("lldp run", "!")
    # Bundles stand first, then the ports, then the VLAN interfaces.
    for kind in ("Port-channel", "", "Vlan"):
        for name, port in settings.interfaces.items():
            if _kind(name, ("Port-channel", "Vlan")) == kind:
                yield f"interface {name}"
                yield from _ios_interface(name, port)
                yield "!"
    for name, entries in settings.access_lists.items():
        yield f"ip access-list standard {name}"
        yield from (f" {entry}" for entry in entries)
    for community, rest in settings.snmp_communities.items():
        yield f"snmp-server community {community} {rest}"
    if settings.snmp_location:
        yield f"snmp-server location {settings.snmp_location}"
    yield from (
        "!",
        "line con 0",
        "line vty 0 4",
        " login local",
        " transport input ssh",
        "!",
        "end",
    )


def _kind(name: str, kinds: tuple[str, ...]) -> str:
    return next((kind for kind in kinds if name.startswith(kind)), "")


def _ios_interface(name: str, port: Interface) -> Iterator[str]:
    if port.description:
        yield f" description {port.description}"
    if port.access_vlan != 1:
        yield f" switchport access vlan {port.access_vlan}"
    if port.native_vlan != 1:
        yield f" switchport trunk native vlan {port.native_vlan}"
    yield from _allowed_lines(port.allowed, " ")
    if port.mode != "dynamic auto":
        yield f" switchport mode {port.mode}"
    if name.startswith("Vlan"):
        yield f" ip address {port.address}" if port.address else " no ip address"
    yield from (f" {line}" for line in port.other)
    if port.shutdown:
        yield " shutdown"
    if port.storm_level:
        yield f" storm-control broadcast level {float(port.storm_level):.2f}"
    if port.group is not None:
        yield f" channel-group {port.group} mode active"
    if port.portfast:
        yield " spanning-tree portfast edge"
    if port.bpduguard:
        yield " spanning-tree bpduguard enable"


def _allowed_lines(allowed: frozenset[int], indent: str, width: int = 60) -> Iterator[str]:
    """Long lists go on in lines of `add`."""
    if allowed == ALL_VLANS:
        return
    start = f"{indent}switchport trunk allowed vlan "
    parts, line = fold(allowed).split(",") if allowed else ["none"], ""
    for part in parts:
        if line and len(start) + len(line) + len(part) > width:
            yield start + line
            start, line = f"{indent}switchport trunk allowed vlan add ", ""
        line = f"{line},{part}" if line else part
    yield start + line


def eos_config(settings: Settings) -> Iterator[str]:
    """Running configuration of an EOS switch, below its header."""
    yield from ("! boot system flash:/EOS-4.28.3M.swi", "!", *settings.other)
    yield from (
        "transceiver qsfp default-mode 4x10G",
        "!",
        "service routing protocols model ribd",
        "!",
    )
    yield from (f"hostname {settings.hostname}", "!")
    if not settings.lldp:
        yield from ("no lldp run", "!")
    if settings.snmp_location:
        yield f"snmp-server location {settings.snmp_location}"
    for community, rest in settings.snmp_communities.items():
        yield f"snmp-server community {community} {rest[:2].lower()}{rest[2:]}"
    yield from (f"spanning-tree mode {settings.spanning_tree}", "!")
    for name, secret in settings.users.items():
        yield f"username {name} privilege 15 role network-admin secret sha512 {secret}"
    yield "!"
    # VLANs of the same name, which is none, share a line.
    for name, group in groupby(sorted(settings.vlans.items()), key=lambda item: _eos_name(*item)):
        vlans = [vlan for vlan, _ in group]
        if name:
            for vlan in vlans:
                yield from (f"vlan {vlan}", f"   name {name}", "!")
        else:
            yield from (f"vlan {fold(vlans)}", "!")
    for kind in ("Port-Channel", "", "Management", "Vlan"):
        for name, port in settings.interfaces.items():
            if _kind(name, ("Port-Channel", "Management", "Vlan")) == kind:
                yield f"interface {name}"
                yield from _eos_interface(port)
                yield "!"
    for name, entries in settings.access_lists.items():
        yield f"ip access-list standard {name}"
        for number, entry in enumerate(entries, 1):
            yield f"   {number * 10} {entry}"
        yield "!"
    yield from ("no ip routing", "!", "end")


def _eos_name(vlan: int, name: str) -> str:
    return "" if name == f"VLAN{vlan:04}" else name


def _eos_interface(port: Interface) -> Iterator[str]:
    if port.description:
        yield f"   description {port.description}"
    if port.mtu_bytes:
        yield f"   mtu {port.mtu_bytes}"
    if port.shutdown:
        yield "   shutdown"
    if port.access_vlan != 1:
        yield f"   switchport access vlan {port.access_vlan}"
    if port.native_vlan != 1:
        yield f"   switchport trunk native vlan {port.native_vlan}"
    if port.allowed != ALL_VLANS:
        yield f"   switchport trunk allowed vlan {fold(port.allowed) or 'none'}"
    if port.mode == "trunk":
        yield "   switchport mode trunk"
    if port.address:
        yield f"   ip address {port.address}"
    yield from (f"   {line}" for line in port.other)
    if port.group is not None:
        yield f"   channel-group {port.group} mode active"
    if port.storm_level:
        yield f"   storm-control broadcast level {float(port.storm_level):g}"
    if port.portfast:
        yield "   spanning-tree portfast"
    if port.bpduguard:
        yield "   spanning-tree bpduguard enable"
