"""Whether phones answer at all: a connection to their sshd is accepted, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fleetctl.rack.model import PHONE_PORT

_LIMIT_SECONDS = 2.0


def answering(addresses: Mapping[str, str], port: int = PHONE_PORT) -> set[str]:
    """Those of `addresses` by name whose port can be connected to within two seconds."""
    return asyncio.run(_answering(addresses, port))


async def answers(address: str, port: int = PHONE_PORT) -> bool:
    """Whether the port can be connected to within two seconds."""
    try:
        async with asyncio.timeout(_LIMIT_SECONDS):
            _, writer = await asyncio.open_connection(address, port)
    except OSError:  # a time that is over is one too
        return False
    writer.close()
    return True


async def _answering(addresses: Mapping[str, str], port: int) -> set[str]:
    found = await asyncio.gather(*(answers(address, port) for address in addresses.values()))
    return {name for name, answering in zip(addresses, found, strict=True) if answering}
