"""Phones made of asyncssh servers on loopback addresses; keys and certificates by ssh-keygen."""

from __future__ import annotations

import asyncio
import subprocess
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncssh
import pytest

from fleetctl.remote import Fleet


def keygen(*arguments: str) -> None:
    subprocess.run(["ssh-keygen", "-q", *arguments], check=True, stdin=subprocess.DEVNULL)


@dataclass
class Loopback:
    """The controller's ssh folder and the phones that listen; `port` is one for all of them."""

    folder: Path
    port: int = 0
    phones: dict[str, Any] = field(default_factory=dict)

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def operator(self) -> Path:
        return self.folder / "operator"

    @property
    def operator_cert(self) -> Path:
        return self.folder / "operator-cert.pub"

    def fleet(self) -> Fleet:
        rack: Any = SimpleNamespace(phones=self.phones)
        paths: Any = self
        return Fleet(rack, paths, port=self.port)

    def add(self, name: str) -> str:
        """A new phone's address; it has a host key and a line in known_hosts."""
        address = f"127.77.0.{len(self.phones) + 1}"
        self.phones[name] = SimpleNamespace(name=name, address=address)
        keygen("-t", "ed25519", "-N", "", "-f", str(self.folder / name))
        key = " ".join((self.folder / f"{name}.pub").read_text().split()[:2])
        with self.known_hosts.open("a") as file:
            file.write(f"{name} {key}\n")
        return address


async def shell(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run what the client asks for with the machine's own sh, in a session of its own, as sshd
    does, which ends nothing when the connection goes."""
    child = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", process.command or "true"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None

    async def feed(stdin: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncssh.Error):
            while data := await process.stdin.read(65536):
                stdin.write(data)
                await stdin.drain()
        stdin.close()

    async def drain(source: asyncio.StreamReader, sink: asyncssh.SSHWriter[bytes]) -> None:
        while data := await source.read(65536):
            sink.write(data)

    feeding = asyncio.create_task(feed(child.stdin))
    feeding.add_done_callback(lambda task: task.exception() and child.kill())
    try:
        await asyncio.gather(
            drain(child.stdout, process.stdout), drain(child.stderr, process.stderr)
        )
        process.exit(await child.wait())
    except (BrokenPipeError, asyncssh.Error):
        child.kill()
    finally:
        feeding.cancel()
        if child.returncode is None:
            child.kill()
            await child.wait()


class PhoneSide(asyncssh.SSHServer):
    """Accepts what the authorized keys file accepts, whatever the user name."""

    def __init__(self, authorized: Path) -> None:
        self._authorized = authorized

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, _username: str) -> bool:
        self._connection.set_authorized_keys(str(self._authorized))
        return True


@pytest.fixture
def loopback(tmp_path: Path) -> Loopback:
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    keygen("-t", "ed25519", "-N", "", "-f", str(folder / "operator"))
    return Loopback(folder)


Listen = Callable[..., Any]


@pytest.fixture
def listen(loopback: Loopback) -> Listen:
    """`async with listen("phone001", …)`: those phones' sshds run while the block lasts."""

    @asynccontextmanager
    async def running(
        *names: str,
        host_keys: dict[str, Any] | None = None,
        authorized: Path | None = None,
        program: Callable[[asyncssh.SSHServerProcess[bytes]], object] = shell,
    ) -> AsyncIterator[None]:
        with ExitStack() as stack:
            for name in names:
                if name not in loopback.phones:
                    loopback.add(name)
                server = await asyncssh.listen(
                    loopback.phones[name].address,
                    loopback.port,
                    server_factory=lambda: PhoneSide(
                        authorized or loopback.folder / "operator.pub"
                    ),
                    server_host_keys=[(host_keys or {}).get(name, str(loopback.folder / name))],
                    process_factory=program,
                    encoding=None,
                    sftp_factory=True,
                )
                loopback.port = loopback.port or server.get_port()
                stack.callback(server.close)
            yield

    return running
