"""The services host, where it is a machine of its own: its files, by the operator's key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh

from fleetctl.errors import FleetError
from fleetctl.rack import Rack, RackPaths
from fleetctl.rack.files import write_atomic
from fleetctl.rack.variables import SERVICES

LIMIT_SECONDS = 20.0


class ServicesError(FleetError):
    """The services host cannot be reached, or does not let us."""


class ServicesHost:
    """Reads and writes small text files there; on this machine, if that serves the rack."""

    def __init__(self, connection: asyncssh.SSHClientConnection | None) -> None:
        self._connection = connection

    async def read(self, path: str) -> str:
        """The text of a file; empty where there is none. Raises ServicesError."""
        if self._connection is None:
            try:
                return Path(path).read_text()
            except FileNotFoundError:
                return ""
            except OSError as problem:
                raise ServicesError(f"{path}: {problem.strerror}") from None
        done = await self._run(self._connection, f"cat {path} 2>/dev/null || true", "")
        return str(done.stdout or "")

    async def write(self, path: str, text: str) -> None:
        """Replace a file in one step. Raises ServicesError."""
        if self._connection is None:
            try:
                write_atomic(Path(path), text)
            except OSError as problem:
                raise ServicesError(f"{path}: {problem.strerror}") from None
            return
        command = f"umask 022 && cat >{path}.new~ && mv {path}.new~ {path}"
        done = await self._run(self._connection, command, text)
        if done.exit_status:
            raise ServicesError(f"services host: {path}: {str(done.stderr).strip()}")

    async def ask(self, command: str) -> str:
        """What a command there prints, whatever its exit code. Raises ServicesError."""
        if self._connection is None:
            process = await asyncio.create_subprocess_shell(
                command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
            )
            out, _ = await process.communicate()
            return out.decode(errors="replace")
        return str((await self._run(self._connection, command, "")).stdout or "")

    async def restart(self, unit: str) -> None:
        """Restart a service of systemd's. Raises ServicesError."""
        command = f"systemctl restart {unit}"
        if self._connection is None:
            process = await asyncio.create_subprocess_shell(command, stderr=asyncio.subprocess.PIPE)
            _, said = await process.communicate()
            failure = said.decode(errors="replace") if process.returncode else None
        else:
            done = await self._run(self._connection, command, "")
            failure = str(done.stderr) if done.exit_status else None
        if failure is not None:
            raise ServicesError(f"services host: `{command}` failed: {failure.strip()}")

    async def _run(
        self, connection: asyncssh.SSHClientConnection, command: str, stdin: str
    ) -> asyncssh.SSHCompletedProcess:
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                return await connection.run(command, input=stdin)
        except (TimeoutError, OSError, asyncssh.Error) as problem:
            raise ServicesError(f"services host: {problem or 'no answer in time'}") from None


@asynccontextmanager
async def services_host(rack: Rack, paths: RackPaths) -> AsyncIterator[ServicesHost]:
    """Raises ServicesError when it does not answer."""
    address = rack.network.services
    if address is None or address == rack.network.controller:
        yield ServicesHost(None)
        return
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            connection = await asyncssh.connect(
                address,
                22,
                username="root",
                host_key_alias=SERVICES,
                known_hosts=str(paths.known_hosts),
                client_keys=[str(paths.operator)],
                agent_path=None,
                config=[],
            )
    except (TimeoutError, OSError, asyncssh.Error) as problem:
        raise ServicesError(
            f"the services host ({address}) does not let fleetctl in: {problem}; its host key must "
            f"be in {paths.known_hosts} as `{SERVICES}`, and the operator's key in root's "
            "authorized_keys there"
        ) from None
    try:
        yield ServicesHost(connection)
    finally:
        connection.abort()
