"""Who answers at an address: its host key, without logging in. Nothing is decided here."""

from __future__ import annotations

import asyncio

import asyncssh

ALGORITHM = "ssh-ed25519"
LIMIT_SECONDS = 10.0


async def host_key(address: str, port: int, limit_seconds: float = LIMIT_SECONDS) -> str | None:
    """The public line of the host key at this address; None where no sshd answers in time."""
    try:
        async with asyncio.timeout(limit_seconds):
            key = await asyncssh.get_server_host_key(
                address, port, server_host_key_algs=[ALGORITHM], config=[]
            )
    except (TimeoutError, OSError, asyncssh.Error):
        return None
    return key.export_public_key().decode().strip() if key else None
