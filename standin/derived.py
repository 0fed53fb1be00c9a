"""A rack file for another number of phones or switches than the one at hand has."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from itertools import groupby

from fleetctl.rack import Rack, RackError

PORTS_PER_SWITCH = 48
FIRST_HOST = 11
"""Phones begin at .11 of the network, behind the controller and the services host."""


POWER = 'power: {command: [fleetctl, standin, hub, "{state}", "{phone}"], limit_seconds: 20}'
"""The stand-in's hub, as a rack file names it."""


def derive_rack_file(
    rack: Rack, target: str, phones: int, switches: int | None = None, openmpi: str | None = None
) -> str:
    """The text of a rack file like `rack` with `phones` phones in equal parts on `switches`.

    Without `switches` it is as many as `rack` has, and more where their ports do not suffice.
    Raises RackError when the network or the switches have no room for them.
    """
    needed = -(-phones // PORTS_PER_SWITCH)
    count = max(len(rack.switches), needed) if switches is None else switches
    if 0 < count < needed:
        raise RackError(
            f"{phones} phones need {needed} switches of {PORTS_PER_SWITCH} ports, not {count}"
        )
    count = min(count, phones)
    addresses = _addresses(rack, phones)
    return "\n".join(
        [
            "# Written by `fleetctl standin up`; goes with `fleetctl standin down`.",
            f"rack: {rack.name}",
            "version: 1",
            *_network(rack),
            *(["switches:"] if count else []),
            *(f"  sw{number}: {{ports: 52, uplinks: 49-50}}" for number in range(1, count + 1)),
            "phones:",
            *_phones(addresses, count, target),
            f'versions: {{openmpi: "{openmpi or rack.versions.openmpi}", '
            f"torch: {rack.versions.torch}}}",
            POWER,
            "",
        ]
    )


def _network(rack: Rack) -> Iterator[str]:
    network = rack.network
    yield "network:"
    yield f"  cidr: {network.cidr}"
    yield "  medium: ethernet"
    yield "  dhcp: ours"
    yield "  time: ours"
    yield f"  controller: {network.controller}"
    yield f"  services: {network.services}"
    yield f"  mtu: {network.mtu}"


def _addresses(rack: Rack, phones: int) -> list[IPv4Address]:
    network = rack.network
    taken = {network.controller, network.services}
    room = range(FIRST_HOST, network.cidr.num_addresses - 1)
    free = [network.cidr.network_address + place for place in room]
    free = [address for address in free if str(address) not in taken]
    if phones > len(free):
        raise RackError(f"{network.cidr} has room for {len(free)} phones, not for {phones}")
    return free[:phones]


def _runs(addresses: list[IPv4Address]) -> Iterator[str]:
    """Consecutive addresses as `10.138.0.11-10.138.0.56`."""
    places = enumerate(addresses)
    for _, run in groupby(places, key=lambda item: int(item[1]) - item[0]):
        members = [address for _, address in run]
        yield f"{members[0]}-{members[-1]}" if len(members) > 1 else str(members[0])


def _phones(addresses: list[IPv4Address], switches: int, target: str) -> Iterator[str]:
    parts = max(switches, 1)
    for part in range(parts):
        low, high = (len(addresses) * edge // parts for edge in (part, part + 1))
        mine = addresses[low:high]
        yield f"  - target: {target}"
        yield f"    addresses: [{', '.join(_runs(mine))}]"
        if switches:
            yield f"    switch: sw{part + 1}"
            yield f"    ports: 1-{len(mine)}"
