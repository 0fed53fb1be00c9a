"""Phones that a DHCP server of others has given another address: found by their host keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from fleetctl.checks.phone import PhoneFacts
from fleetctl.rack import Rack
from fleetctl.rack.model import PHONE_PORT
from fleetctl.remote.hostkey import host_key

ASKED_AT_ONCE = 256
ASK_SECONDS = 2.0
"""For one address: a phone in the same network answers in a fraction of it."""

SEARCH_SECONDS = 5.0
"""For all of them: nobody waits longer for a check because phones are away."""

MOST_ADDRESSES = 4096


@dataclass(frozen=True, slots=True)
class Found:
    """`phones`: name -> where it answers now; so many addresses were `asked` in time, of `places`
    that there are."""

    phones: Mapping[str, str]
    asked: int
    places: int


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
) -> Found:
    """Where phones answer now, of those of `names` that answer anywhere in the rack's network.

    The addresses next to where they were come first, since the search has one limit for all.
    """
    wanted = set(names)
    places = _places(rack, wanted)
    found: dict[str, str] = {}
    asked = 0
    queue = iter(places)

    async def ask() -> None:
        nonlocal asked
        for address in queue:
            if found.keys() == wanted:
                return
            key = await host_key(address, port, ASK_SECONDS)
            asked += 1
            name = keys.get(" ".join(key.split()[:2])) if key else None
            if name in wanted and name is not None:
                found[name] = address

    asking = [asyncio.create_task(ask()) for _ in range(min(ASKED_AT_ONCE, len(places)))]
    if asking:
        done, late = await asyncio.wait(asking, timeout=SEARCH_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for task in done:
            task.result()
    return Found(found, asked if found.keys() != wanted else len(places), len(places))


def _places(rack: Rack, wanted: set[str]) -> list[str]:
    """The addresses where they may be now, those next to where they were first."""
    others = {phone.address for phone in rack.phones.values() if phone.name not in wanted}
    others |= {place for place in (rack.network.controller, rack.network.services) if place}
    before = [int(IPv4Address(rack.phones[name].address)) for name in wanted]
    free = [each for each in rack.network.cidr.hosts() if str(each) not in others]
    free.sort(key=lambda each: min(abs(int(each) - at) for at in before))
    return [str(each) for each in free]
