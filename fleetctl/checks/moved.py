"""Phones that a DHCP server of others has given another address: found by their host keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from fleetctl.checks.phone import PhoneFacts
from fleetctl.rack import Rack
from fleetctl.rack.model import PHONE_PORT
from fleetctl.remote.hostkey import host_key

ASKED_AT_ONCE = 128
MOST_ADDRESSES = 4096
LIMIT_SECONDS = 4.0


def known_keys(known_hosts: Path) -> dict[str, str]:
    """Name by public line, of the phones that were enrolled."""
    lines = known_hosts.read_text().splitlines() if known_hosts.is_file() else []
    words = [line.split() for line in lines if not line.startswith(("@", "#"))]
    return {" ".join(word[1:3]): word[0] for word in words if len(word) >= 3}


def worth_a_search(facts: Mapping[str, PhoneFacts], rack: Rack) -> list[str]:
    """The phones that may have moved: others choose the addresses, and they are not where they
    were. With a server of our own a phone has its address or none."""
    if rack.network.dhcp == "ours" or rack.network.cidr.num_addresses > MOST_ADDRESSES:
        return []
    return [name for name, found in facts.items() if found.answered is not True]


async def find(
    rack: Rack, names: Iterable[str], keys: Mapping[str, str], port: int = PHONE_PORT
) -> dict[str, str]:
    """Where phones answer now, of those of `names` that answer anywhere in the rack's network."""
    wanted = set(names)
    bound = asyncio.Semaphore(ASKED_AT_ONCE)
    found: dict[str, str] = {}

    async def ask(address: str) -> None:
        async with bound:
            key = await host_key(address, port, LIMIT_SECONDS)
        name = keys.get(" ".join(key.split()[:2])) if key else None
        if name in wanted and name is not None:
            found[name] = address

    others = {phone.address for phone in rack.phones.values() if phone.name not in wanted}
    others |= {place for place in (rack.network.controller, rack.network.services) if place}
    addresses = (str(address) for address in rack.network.cidr.hosts())
    await asyncio.gather(*(ask(each) for each in addresses if each not in others))
    return found
