"""Run commands on many phones over one kept connection each: the only code that connects."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import asyncssh

from fleetctl.errors import DISK_TROUBLE
from fleetctl.remote import connect, faults, files
from fleetctl.remote.faults import PhoneError
from fleetctl.remote.pauses import Pauses

if TYPE_CHECKING:
    from fleetctl.rack import Rack, RackPaths

# Handshakes are the controller's own CPU time; more at once only makes all of them late.
CONCURRENT = 48


@dataclass(frozen=True, slots=True)
class Result:
    """What a command left behind. `exit_code` is None when `error` says why it did not finish."""

    exit_code: int | None
    stdout: str = ""
    stderr: str = ""
    error: PhoneError | None = None

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    def failure(self, phone: str) -> str:
        """One sentence for a result that is not ok."""
        if self.error is not None:
            return str(self.error)
        said = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return f"{phone}: exit code {self.exit_code}" + (f": {said[-1]}" if said else "")


class Fleet:
    """Connections to the phones of one rack, made when first used and closed together.

    A phone that hangs or is unplugged breaks its connection after four unanswered keepalives
    (12 s); whatever was waiting on it then gets a PhoneError that names it. The next use of the
    phone connects anew. One whose sshd throttles us is left alone for a while, and tells the same.
    """

    def __init__(self, rack: Rack, paths: RackPaths, *, port: int = connect.PORT) -> None:
        self._addresses = {name: phone.address for name, phone in rack.phones.items()}
        self._identity = connect.Identity(
            known_hosts=paths.known_hosts,
            key=paths.operator,
            certificate=paths.operator_cert,
        )
        self._port = port
        self._connections: dict[str, asyncssh.SSHClientConnection] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._pauses = Pauses()
        self._bound = asyncio.Semaphore(CONCURRENT)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # abort, not close: a hung phone would make a graceful close wait.
        for connection in self._connections.values():
            connection.abort()
        self._connections.clear()

    def address(self, name: str) -> str:
        return self._addresses[name]

    async def connection(self, name: str) -> asyncssh.SSHClientConnection:
        """The kept connection to a phone, made on first use. Raises PhoneError."""
        if name not in self._addresses:
            raise faults.not_in_rack(name)
        async with self._locks.setdefault(name, asyncio.Lock()):
            kept = self._connections.get(name)
            if kept is not None and not kept.is_closed():
                return kept
            clock = asyncio.get_running_loop().time
            if self._pauses.holds(name, clock()):
                raise faults.throttled(name, self._addresses[name])
            try:
                made = await connect.connect(
                    name, self._addresses[name], self._identity, self._port, self._bound
                )
            except PhoneError as error:
                self._pauses.failed(error, clock())
                raise
            self._pauses.succeeded(name)
            self._connections[name] = made
            return made

    async def run(
        self,
        names: Iterable[str],
        command: str,
        *,
        timeout_seconds: float = 5,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> dict[str, Result]:
        """Run one shell command on every phone named, at once; nothing is raised for a phone."""
        order = list(names)
        line = _with_environment(command, env)
        results = await asyncio.gather(
            *(self._run_on(name, line, timeout_seconds, stdin) for name in order)
        )
        return dict(zip(order, results, strict=True))

    async def run_on(
        self,
        name: str,
        command: str,
        *,
        timeout_seconds: float = 5,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> Result:
        """`run` for one phone."""
        return await self._run_on(name, _with_environment(command, env), timeout_seconds, stdin)

    async def stream(self, name: str, command: str) -> AsyncGenerator[str]:
        """The command's standard output line by line while it runs. Raises PhoneError.

        A last line without its newline is left out: a broken connection cuts lines anywhere.
        Leaving the loop closes the channel, which ends the command on the phone.
        """
        connection = await self.connection(name)
        process: asyncssh.SSHClientProcess[str] | None = None
        try:
            process = await connection.create_process(
                command, stdin=asyncssh.DEVNULL, stderr=asyncssh.DEVNULL, errors="replace"
            )
            async for line in process.stdout:
                if line.endswith("\n"):
                    yield line.rstrip("\n")
            await process.wait_closed()
        except (asyncssh.Error, OSError) as error:
            raise faults.classify(name, self._addresses[name], error) from error
        finally:
            _leave(connection, process)
        if connection.is_closed():
            raise faults.lost(name)

    async def put(
        self, names: Iterable[str], local: Path, remote: str, *, timeout_seconds: float = 120
    ) -> dict[str, PhoneError | None]:
        """Copy a file or a folder to every phone named; it appears there whole or not at all."""
        return await self._transfer(
            names, timeout_seconds, lambda sftp: files.put(sftp, local, remote)
        )

    async def put_each(
        self, name: str, local: Sequence[Path], folder: str, *, timeout_seconds: float
    ) -> PhoneError | None:
        """Copy files into a folder of one phone, in about their order; each appears whole."""
        outcome = await self._transfer(
            [name], timeout_seconds, lambda sftp: files.put_each(sftp, local, folder)
        )
        return outcome[name]

    async def get(
        self, name: str, remote: str, local: Path, *, timeout_seconds: float = 120
    ) -> None:
        """Copy a file or a folder from a phone; it appears here whole.

        Raises PhoneError, and OSError when this controller's disk is the trouble.
        """
        outcome = await self._transfer(
            [name], timeout_seconds, lambda sftp: files.get(sftp, remote, local)
        )
        if (error := outcome[name]) is not None:
            raise error

    async def _transfer(
        self, names: Iterable[str], timeout_seconds: float, move: files.Move
    ) -> dict[str, PhoneError | None]:
        order = list(names)

        async def one(name: str) -> PhoneError | None:
            try:
                connection = await self.connection(name)
                async with (
                    self._bound,
                    asyncio.timeout(timeout_seconds),
                    connection.start_sftp_client() as sftp,
                ):
                    await move(sftp)
            except PhoneError as error:
                return error
            except TimeoutError:
                return faults.unfinished(name, timeout_seconds)
            except asyncssh.SFTPError as error:
                return files.explain(name, error)
            except (asyncssh.Error, OSError) as error:
                if isinstance(error, OSError) and error.errno in DISK_TROUBLE:
                    raise
                return faults.classify(name, self._addresses[name], error)
            return None

        outcomes = await asyncio.gather(*(one(name) for name in order))
        return dict(zip(order, outcomes, strict=True))

    async def _run_on(self, name: str, command: str, limit_seconds: float, stdin: str) -> Result:
        try:
            connection = await self.connection(name)
            return await self._finish(connection, name, command, limit_seconds, stdin)
        except PhoneError as error:
            return Result(None, error=error)
        except (asyncssh.Error, OSError) as error:
            return Result(None, error=faults.classify(name, self._addresses[name], error))

    async def _finish(
        self,
        connection: asyncssh.SSHClientConnection,
        name: str,
        command: str,
        limit_seconds: float,
        stdin: str,
    ) -> Result:
        process: asyncssh.SSHClientProcess[str] | None = None
        try:
            async with asyncio.timeout(limit_seconds):
                process = await connection.create_process(command, errors="replace")
                try:
                    out, err = await process.communicate(stdin)
                except BrokenPipeError:
                    # It ended before it could be given its stdin; what it said is here.
                    out, err = await process.communicate()
        except TimeoutError:
            return Result(None, error=faults.unfinished(name, limit_seconds))
        finally:
            _leave(connection, process)
        if process.exit_status is None:
            return Result(None, out or "", err or "", faults.lost(name))
        return Result(process.exit_status, out or "", err or "")


def _leave(
    connection: asyncssh.SSHClientConnection, process: asyncssh.SSHClientProcess[str] | None
) -> None:
    """End a command that still runs, and do not wait: sshd closes the channel of a silent
    command only when that ends."""
    if process is not None and process.exit_status is None and not connection.is_closed():
        process.kill()
        process.close()


def _with_environment(command: str, env: Mapping[str, str] | None) -> str:
    """sshd drops most of the environment it is sent, so it goes into the command."""
    if not env:
        return command
    pairs = " ".join(f"{key}={shlex.quote(value)}" for key, value in env.items())
    return f"export {pairs}; {command}"
