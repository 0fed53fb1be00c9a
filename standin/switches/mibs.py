"""What a stand-in switch says by SNMP: its real state under the numbers of the usual MIBs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pysnmp.proto.rfc1902 import (
    Counter32,
    Counter64,
    Gauge32,
    Integer32,
    ObjectIdentifier,
    OctetString,
    TimeTicks,
)

from standin.switches.device import Device
from standin.switches.printed import short
from standin.switches.state import Interface, effects

type Oid = tuple[int, ...]
type Object = tuple[Oid, Any]
type Numbered = list[tuple[int, str, Interface]]

_SYSTEM: Oid = (1, 3, 6, 1, 2, 1, 1)
_IF: Oid = (1, 3, 6, 1, 2, 1, 2, 2, 1)
_IF_X: Oid = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1)
_DUPLEX: Oid = (1, 3, 6, 1, 2, 1, 10, 7, 2, 1, 19)
_BRIDGE: Oid = (1, 3, 6, 1, 2, 1, 17)
_SENSOR: Oid = (1, 3, 6, 1, 2, 1, 99, 1, 1, 1)
_CISCO_SENSOR: Oid = (1, 3, 6, 1, 4, 1, 9, 9, 91, 1, 1, 1, 1)
_ENTITY: Oid = (1, 3, 6, 1, 2, 1, 47, 1, 1, 1, 1)
_POE: Oid = (1, 3, 6, 1, 2, 1, 105, 1)
_CISCO_POE: Oid = (1, 3, 6, 1, 4, 1, 9, 9, 402, 1, 2, 1, 9)
_CISCO_VLAN: Oid = (1, 3, 6, 1, 4, 1, 9, 9, 68, 1, 2, 2, 1, 2)

_ABOUT = {
    "ios": (
        "Cisco IOS Software, C2960X Software, Version 15.2(7)E",
        (1, 3, 6, 1, 4, 1, 9, 1, 1208),
    ),
    "eos": ("Arista Networks EOS version 4.28.3M", (1, 3, 6, 1, 4, 1, 30065, 1, 3011)),
}
_SENSOR_AT = 1006


def objects(device: Device, uptime_seconds: float, vlan: int | None) -> list[Object]:
    """Everything, in the order of its numbers. `vlan` is the one that a community named."""
    rows = numbered(device)
    found = [*_system(device, uptime_seconds)]
    for at, name, port in rows:
        found += _interface(device, at, name, port)
    found += [*_bridge(device, rows, vlan), *_sensors(device), *_poe(device, rows)]
    return sorted(found, key=lambda item: item[0])


def numbered(device: Device) -> Numbered:
    """Interfaces with the numbers that SNMP knows them by."""
    first = 10101 if device.kind == "ios" else 1
    return [
        (first + place, name, port)
        for place, (name, port) in enumerate(device.running.interfaces.items())
    ]


def _system(device: Device, uptime_seconds: float) -> Iterator[Object]:
    text, kind = _ABOUT[device.kind]
    yield (*_SYSTEM, 1, 0), OctetString(text)
    yield (*_SYSTEM, 2, 0), ObjectIdentifier(kind)
    yield (*_SYSTEM, 3, 0), _ticks(uptime_seconds)
    yield (*_SYSTEM, 5, 0), OctetString(device.running.hostname)
    yield (*_SYSTEM, 6, 0), OctetString(device.running.snmp_location)


def _interface(device: Device, at: int, name: str, port: Interface) -> Iterator[Object]:
    linked, changed_seconds = device.link(name)
    traffic = device.plane.counters(name)
    megabits = device.plane.speed_mbits(name) if linked and device.is_physical(name) else 0
    yield (*_IF, 1, at), Integer32(at)
    yield (*_IF, 2, at), OctetString(name)
    yield (*_IF, 3, at), Integer32(6)
    yield (*_IF, 7, at), Integer32(2 if port.shutdown else 1)
    yield (*_IF, 8, at), Integer32(1 if linked else 2)
    yield (*_IF, 9, at), _ticks(changed_seconds)
    yield (*_IF, 13, at), Counter32(traffic.discards_in)
    yield (*_IF, 14, at), Counter32(traffic.errors_in)
    yield (*_IF, 19, at), Counter32(traffic.discards_out)
    yield (*_IF, 20, at), Counter32(traffic.errors_out)
    yield (*_IF_X, 1, at), OctetString(short(name))
    yield (*_IF_X, 6, at), Counter64(traffic.octets_in)
    yield (*_IF_X, 7, at), Counter64(traffic.frames_in)
    yield (*_IF_X, 10, at), Counter64(traffic.octets_out)
    yield (*_IF_X, 11, at), Counter64(traffic.frames_out)
    yield (*_IF_X, 15, at), Gauge32(megabits)
    yield (*_IF_X, 18, at), OctetString(port.description)
    if linked:
        yield (*_DUPLEX, at), Integer32(3)


def _bridge(device: Device, rows: Numbered, vlan: int | None) -> Iterator[Object]:
    """IOS shows the ports of one VLAN that have a carrier; EOS all ports at once."""
    carried = effects(device.running, strict_bundles=device.kind == "ios")
    yield (*_BRIDGE, 2, 4, 0), Counter32(0)
    for number, (at, name, port) in enumerate(rows, 1):
        if name not in carried:
            continue
        linked, _ = device.link(name)
        if device.kind == "ios":
            if port.mode != "trunk":
                yield (*_CISCO_VLAN, at), Integer32(port.access_vlan)
            if not linked or (vlan or 1) not in carried[name].vlans:
                continue
        else:
            yield (*_BRIDGE, 7, 1, 4, 5, 1, 1, number), Gauge32(carried[name].untagged or 1)
        yield (*_BRIDGE, 1, 4, 1, 2, number), Integer32(at)
        yield (*_BRIDGE, 2, 15, 1, 3, number), Integer32(5 if linked else 1)


def _sensors(device: Device) -> Iterator[Object]:
    """One thermometer, in tenths of a degree; IOS has it in a table of its own."""
    table = _CISCO_SENSOR if device.kind == "ios" else _SENSOR
    tenths = round(device.knobs.celsius * 10)
    for column, value in enumerate((8, 9, 1, tenths, 1), 1):
        yield (*table, column, _SENSOR_AT), Integer32(value)
    yield (*_ENTITY, 2, _SENSOR_AT), OctetString("Switch 1 - Temp Sensor 0")


def _poe(device: Device, rows: Numbered) -> Iterator[Object]:
    if not device.knobs.poe_watts:
        return
    total = 0.0
    for _, name, port in rows:
        if not device.is_physical(name):
            continue
        number = int(name.rpartition("/")[2].removeprefix("Ethernet"))
        watts = device.fed_watts(name)
        total += watts
        off = device.is_poe_off(port)
        state = 1 if off else 3 if watts else 2
        yield (*_POE, 1, 1, 3, 1, number), Integer32(2 if off else 1)
        yield (*_POE, 1, 1, 6, 1, number), Integer32(state)
        if device.kind == "ios":
            yield (*_CISCO_POE, 1, number), Gauge32(round(watts * 1000))
    yield (*_POE, 3, 1, 1, 2, 1), Gauge32(round(device.knobs.poe_watts))
    yield (*_POE, 3, 1, 1, 4, 1), Gauge32(round(total))


def _ticks(seconds: float) -> Any:
    return TimeTicks(int(max(0.0, seconds) * 100) % (1 << 32))
