"""What `show` prints, in the columns of each kind of switch."""

from __future__ import annotations

from collections.abc import Iterator

from standin.switches.device import Device
from standin.switches.editor import UNAVAILABLE
from standin.switches.show import eos_config, ios_config
from standin.switches.state import Interface, Settings

_SHORT = {
    "FastEthernet": "Fa",
    "GigabitEthernet": "Gi",
    "TenGigabitEthernet": "Te",
    "Ethernet": "Et",
    "Port-channel": "Po",
    "Port-Channel": "Po",
    "Management": "Ma",
}


def short(name: str) -> str:
    """`GigabitEthernet1/0/3` as tables write it."""
    kind = name.rstrip("0123456789/")
    return _SHORT.get(kind, kind) + name[len(kind) :]


def dotted(mac: str) -> str:
    digits = mac.replace(":", "")
    return ".".join(digits[place : place + 4] for place in (0, 4, 8))


def configuration(device: Device, settings: Settings, what: str) -> Iterator[str]:
    """A whole configuration with its heading."""
    if device.kind == "ios":
        body = "\n".join(ios_config(settings))
        if what == "running":
            yield from ("Building configuration...", "")
            yield f"Current configuration : {len(body)} bytes"
        else:
            yield f"Using {len(body)} out of 524288 bytes"
        yield from ("!", "! Last configuration change at 10:15:27 UTC Mon Mar 1 1993 by admin")
        yield from body.split("\n")
    else:
        yield f"! Command: show {what}-config"
        yield f"! device: {settings.hostname} (vEOS-lab, EOS-4.28.3M)"
        yield "!"
        yield from eos_config(settings)


def vlan_brief(device: Device) -> Iterator[str]:
    yield ""
    yield "VLAN Name                             Status    Ports"
    yield "---- -------------------------------- --------- -------------------------------"
    for vlan, name in sorted({1: "default", **device.running.vlans}.items()):
        members = [
            short(port)
            for port, item in device.running.interfaces.items()
            if Device.is_physical(port) and item.mode != "trunk" and item.access_vlan == vlan
        ]
        rows = [", ".join(members[place : place + 4]) for place in range(0, len(members), 4)]
        yield f"{vlan:<4} {name[:32]:<32} {'active':<9} {rows[0] if rows else ''}".rstrip()
        yield from (f"{'':48}{row}" for row in rows[1:])


def interfaces_status(device: Device) -> Iterator[str]:
    ios = device.kind == "ios"
    if ios:
        yield ""
        yield "Port      Name               Status       Vlan       Duplex  Speed Type"
    else:
        yield "Port       Name            Status       Vlan     Duplex Speed  Type         Flags"
    for name, port in device.running.interfaces.items():
        if not name.startswith("Vlan"):
            status, duplex, speed = _link(device, name, port)
            vlan = "trunk" if port.mode == "trunk" else str(port.access_vlan)
            if ios:
                row = f"{short(name):<9} {port.description[:18]:<18} {status:<12} {vlan:<10} "
                yield f"{row}{duplex:>6} {speed:>6} 10/100/1000BaseTX"
            else:
                row = f"{short(name):<10} {port.description[:15]:<15} {status:<12} {vlan:<8} "
                yield f"{row}{duplex:<6} {speed:<6} 1000BASE-T"


def _link(device: Device, name: str, port: Interface) -> tuple[str, str, str]:
    if port.shutdown:
        return "disabled", "auto", "auto"
    if not device.plane.linked(name):
        return "notconnect", "auto", "auto"
    mbits = device.plane.speed_mbits(name)
    if device.kind == "ios":
        return "connected", "a-full", "a-10G" if mbits == 10_000 else f"a-{mbits}"
    return "connected", "a-full", f"{mbits // 1000}G" if mbits >= 1000 else f"{mbits}M"


def power_inline(device: Device) -> Iterator[str]:
    """A switch that feeds nobody does not know the command; nor does EOS, which has another."""
    if device.kind != "ios" or not device.knobs.poe_watts:
        yield from ("                ^", "% Invalid input detected at '^' marker.", "")
        return
    ports = {
        name: port for name, port in device.running.interfaces.items() if device.is_physical(name)
    }
    used = sum(device.fed_watts(name) for name in ports)
    available = device.knobs.poe_watts
    yield from ("", "Module   Available     Used     Remaining")
    yield "          (Watts)     (Watts)    (Watts) "
    yield "------   ---------   --------   ---------"
    yield f"{1:<9}{available:9.1f}{used:11.1f}{available - used:12.1f}"
    yield "Interface Admin  Oper       Power   Device              Class Max"
    yield f"{'':28}(Watts){'':28}"
    yield "--------- ------ ---------- ------- ------------------- ----- ----"
    for name, port in ports.items():
        watts, admin = device.fed_watts(name), "off" if device.is_poe_off(port) else "auto"
        row = f"{short(name):<9} {admin:<6} {'on' if watts else 'off':<10} {watts:<7.1f} "
        yield row + (f"{'Ieee PD':<19} 4     30.0 " if watts else f"{'n/a':<19} n/a   30.0 ")


def poe(device: Device) -> Iterator[str]:
    """Of EOS; the columns are a guess (docs/hardware-checklist.md)."""
    if not device.knobs.poe_watts:
        yield UNAVAILABLE
        return
    yield f"{'':11}PSE                    Power"
    yield "Port       Enabled   State        (W)    Class"
    yield "---------- --------- ------------ ------ -----"
    for name, port in device.running.interfaces.items():
        if device.is_physical(name):
            watts, is_off = device.fed_watts(name), device.is_poe_off(port)
            state = "disabled" if is_off else "powered" if watts else "searching"
            row = f"{short(name):<10} {'False' if is_off else 'True':<9} {state:<12} "
            yield f"{row}{watts:<6.1f} {4 if watts else 'n/a'}"


def counters(device: Device) -> Iterator[str]:
    for way, heading in (("in", "InOctets"), ("out", "OutOctets")):
        frames = f"{heading[: -len('Octets')]}UcastPkts"
        yield ""
        yield f"Port            {heading:>12}  {frames:>12}"
        for name in device.running.interfaces:
            if Device.is_physical(name):
                found = device.plane.counters(name)
                octets = found.octets_in if way == "in" else found.octets_out
                count = found.frames_in if way == "in" else found.frames_out
                yield f"{short(name):<15} {octets:>12}  {count:>12}"


def mac_table(device: Device) -> Iterator[str]:
    learnt = _by_bundle(device)
    if device.kind == "ios":
        yield from ("          Mac Address Table", "-" * 43, "")
        yield "Vlan    Mac Address       Type        Ports"
        yield "----    -----------       --------    -----"
        yield " All    0100.0ccc.cccc    STATIC      CPU"
        for vlan, mac, port in learnt:
            yield f"{vlan:>4}    {mac}    DYNAMIC     {port}"
        yield f"Total Mac Addresses for this criterion: {len(learnt) + 1}"
        return
    yield from ("          Mac Address Table", "-" * 66, "")
    yield "Vlan    Mac Address       Type        Ports      Moves   Last Move"
    yield "----    -----------       ----        -----      -----   ---------"
    for vlan, mac, port in learnt:
        yield f"{vlan:>4}    {mac}    DYNAMIC     {port:<10} 1       0:01:33 ago"
    yield f"Total Mac Addresses for this criterion: {len(learnt)}"
    yield from ("", "          Multicast Mac Address Table", "-" * 66, "")
    yield "Vlan    Mac Address       Type        Ports"
    yield "----    -----------       ----        -----"
    yield "Total Mac Addresses for this criterion: 0"


def _by_bundle(device: Device) -> list[tuple[int, str, str]]:
    """The MAC table; what came in by a bundle's member stands at the bundle."""
    groups = {name: port.group for name, port in device.running.interfaces.items()}
    return [
        (vlan, dotted(mac), f"Po{groups[port]}" if groups.get(port) is not None else short(port))
        for vlan, mac, port in device.plane.learnt()
    ]


def lldp_neighbors(device: Device) -> Iterator[str]:
    if not device.running.lldp:
        yield "% LLDP is not enabled"
        return
    found = device.plane.neighbours()
    if device.kind == "ios":
        yield from ("", "Capability codes:")
        yield "    (R) Router, (B) Bridge, (T) Telephone, (C) DOCSIS Cable Device"
        yield "    (W) WLAN Access Point, (P) Repeater, (S) Station, (O) Other"
        yield from ("", "Device ID           Local Intf     Hold-time  Capability      Port ID")
        for port, name, remote in found:
            yield f"{name[:20]:<20}{short(port):<15}120        B               {short(remote)}"
        yield from ("", f"Total entries displayed: {len(found)}", "")
        return
    yield "Last table change time   : 0:01:58 ago"
    yield f"Number of table inserts  : {len(found)}"
    yield from ("", "Port          Neighbor Device ID       Neighbor Port ID    TTL")
    yield "---------- ------------------------ ---------------------- ---"
    for port, name, remote in found:
        yield f"{short(port):<13} {name:<24} {remote:<22} 120"
    yield ""
