"""What our own DHCP server hands out: reservations, and leases for phones nobody has met yet. Pure.

A phone's Ethernet adapter is first seen on the wire, so until then it gets a short lease from the
addresses that the rack leaves free; as long as no phone waits for that, strangers get nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import groupby

from fleetctl.rack.model import Rack

MOST_GUESTS = 256


@dataclass(frozen=True, slots=True)
class GuestRange:
    """Addresses, both ends included."""

    first: str
    last: str


def waiting(rack: Rack) -> list[str]:
    """Phones that are enrolled by adb and have not been met on the wire."""
    return [name for name, phone in rack.phones.items() if phone.waits_for_wire]


def nowhere(rack: Rack) -> list[str]:
    """Phones that have no address yet: our server knows only adapters that it was told of."""
    if rack.network.dhcp != "ours":
        return []
    return [phone.name for phone in rack.phones.values() if phone.enrolled and not phone.mac]


def guest_range(rack: Rack) -> GuestRange | None:
    """The longest run of free addresses; None while nobody waits, or where none is free."""
    if rack.network.dhcp != "ours" or not waiting(rack):
        return None
    runs = [
        [address for _, address in run]
        for _, run in groupby(enumerate(_free(rack)), key=lambda item: int(item[1]) - item[0])
    ]
    if not runs:
        return None
    longest = max(runs, key=len)[:MOST_GUESTS]
    return GuestRange(str(longest[0]), str(longest[-1]))


def _free(rack: Rack) -> Iterator[IPv4Address]:
    network = rack.network
    taken = {phone.address for phone in rack.phones.values()}
    taken |= {address for address in (network.controller, network.services) if address}
    taken |= {switch.address for switch in rack.switches.values() if switch.address}
    return (address for address in network.cidr.hosts() if str(address) not in taken)


def reservations(rack: Rack) -> list[str]:
    """A line a phone, as dnsmasq reads them: its adapter, its address, its name."""
    return [
        f"{phone.mac},{phone.address},{phone.name},infinite"
        for phone in rack.phones.values()
        if phone.mac
    ]
