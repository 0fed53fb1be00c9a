"""Whether phones answer at all, without a login.

sshd counts who leaves without one, and lets a source that does so often wait, which is no silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress

from fleetctl.rack.model import PHONE_PORT

_LIMIT_SECONDS = 2.0
_NOBODYS_PORT = 9


def answering(addresses: Mapping[str, str], port: int = PHONE_PORT) -> set[str]:
    """Those of `addresses` by name whose sshd greets, or says that it does not now, within two
    seconds."""
    return asyncio.run(_answering(addresses, port))


def rouse(addresses: Iterable[str]) -> None:
    """Have each phone say something, so that switches hear where it is; no sshd notices."""
    asyncio.run(_rouse(addresses))


async def listens(address: str, port: int) -> bool:
    """Whether the port can be connected to within two seconds; for doors that do not greet."""
    try:
        async with asyncio.timeout(_LIMIT_SECONDS):
            _, writer = await asyncio.open_connection(address, port)
    except OSError:  # a time that is over is one too
        return False
    writer.close()
    return True


async def _greets(address: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_LIMIT_SECONDS):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                return bool(await reader.read(1))
            finally:
                writer.close()
    except OSError:
        return False


async def _answering(addresses: Mapping[str, str], port: int) -> set[str]:
    found = await asyncio.gather(*(_greets(address, port) for address in addresses.values()))
    return {name for name, greets in zip(addresses, found, strict=True) if greets}


async def _rouse(addresses: Iterable[str]) -> None:
    async def one(address: str) -> None:
        # The refusal is what the phone says.
        with suppress(OSError):
            async with asyncio.timeout(_LIMIT_SECONDS):
                _, writer = await asyncio.open_connection(address, _NOBODYS_PORT)
                writer.close()

    await asyncio.gather(*(one(address) for address in addresses))
