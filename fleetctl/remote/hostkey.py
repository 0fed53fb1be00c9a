"""Who answers at an address, and whether it lets the operator in: what enrolment asks."""

from __future__ import annotations

import asyncio

import asyncssh

from fleetctl.remote import faults
from fleetctl.remote.connect import Identity, connect
from fleetctl.remote.faults import Fault, PhoneError

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


async def log_in(
    phone: str, address: str, identity: Identity, port: int, command: str = "true"
) -> None:
    """Log in under the phone's known host key and run one command.

    Raises PhoneError, also where the command fails.
    """
    connection = await connect(phone, address, identity, port)
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            done = await connection.run(command)
    except TimeoutError:
        raise faults.unfinished(phone, LIMIT_SECONDS) from None
    except (OSError, asyncssh.Error) as problem:
        raise faults.classify(phone, address, problem) from None
    finally:
        connection.abort()
    if done.exit_status:
        said = str(done.stderr or done.stdout).strip()
        raise PhoneError(phone, Fault.FAILED, f"{phone}: `{command}` failed: {said}; rerun")
