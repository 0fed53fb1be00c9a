"""Stand-in switches behind ssh, in a thread of their own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import asyncssh

from standin.switches.device import Device, Knobs
from standin.switches.session import Session
from standin.switches.terminal import Terminal

_TICK_SECONDS = 0.05

# What a switch of 2010 offers, and nothing else.
_SHA1_ONLY: dict[str, Any] = {
    "kex_algs": ["diffie-hellman-group14-sha1"],
    "mac_algs": ["hmac-sha1"],
    "encryption_algs": ["aes128-cbc"],
    "signature_algs": ["ssh-rsa"],
}


def _algorithms(device: Device) -> dict[str, Any]:
    """What its sshd offers; nothing named is everything that is still held to be good."""
    return _SHA1_ONLY if device.knobs.sha1_only else dict.fromkeys(_SHA1_ONLY, ())


class _Login(asyncssh.SSHServer):
    def __init__(self, device: Device) -> None:
        self.device = device

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self.close: Callable[[], None] = conn.abort
        if self.device.down:
            conn.abort()
        self.device.on_down.append(self.close)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.device.on_down.remove(self.close)

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return self.device.accounts.get(username) == password


@dataclass
class SwitchServer:
    """Serves devices over ssh until it is stopped. Thread-safe where it says so."""

    host_key: asyncssh.SSHKey = field(
        default_factory=lambda: asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    )
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _devices: list[Device] = field(default_factory=list)
    _servers: list[tuple[Device, asyncssh.SSHAcceptor]] = field(default_factory=list)
    _sockets: list[asyncio.DatagramTransport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._ticking = asyncio.run_coroutine_threadsafe(self._tick(), self._loop)

    def serve(
        self,
        device: Device,
        address: str = "",
        port: int = 0,
        key: asyncssh.SSHKey | None = None,
        listener: socket.socket | None = None,
    ) -> int:
        """Listen for one device; the port that was taken. From any thread.

        `key` is its own host key; a bound `listener` takes the place of address and port.
        """
        where = {"sock": listener} if listener else {"host": address, "port": port}
        return self._run(self._serve(device, key or self.host_key, where))

    def serve_snmp(
        self,
        device: Device,
        address: str = "",
        port: int = 0,
        listener: socket.socket | None = None,
    ) -> int:
        """Answer SNMP for one device; the UDP port that was taken. From any thread.

        A bound `listener` takes the place of address and port.
        """
        where = {"sock": listener} if listener else {"local_addr": (address, port)}
        return self._run(self._serve_snmp(device, where))

    def on(self, device: Device, act: Callable[[Device], Any]) -> Any:
        """Look at a device, or change it, between two of its lines. From any thread."""

        async def call() -> Any:
            device.tick()
            return act(device)

        return self._run(call())

    def turn(self, device: Device, knobs: Knobs) -> None:
        """Make a device as troublesome as `knobs` say; logins notice the next time. From any
        thread."""

        def act(device: Device) -> None:
            device.knobs = knobs
            for other, server in self._servers:
                if other is device:
                    server.update(**_algorithms(device))
            device.changed()

        self.on(device, act)

    def stop(self) -> None:
        """Close everything. From any thread."""
        self._ticking.cancel()
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run[Result](self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _close(self) -> None:
        for _, server in self._servers:
            server.close()
        for transport in self._sockets:
            transport.close()
        for device in self._devices:
            for close in list(device.on_down):
                close()
        mine = asyncio.current_task()
        rest = [task for task in asyncio.all_tasks() if task is not mine]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _tick(self) -> None:
        while True:
            for device in self._devices:
                device.tick()
            await asyncio.sleep(_TICK_SECONDS)

    async def _serve_snmp(self, device: Device, where: dict[str, Any]) -> int:
        from standin.switches.agent import SnmpAgent

        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: SnmpAgent(device), **where
        )
        self._sockets.append(transport)
        taken: int = transport.get_extra_info("sockname")[1]
        return taken

    async def _serve(self, device: Device, key: asyncssh.SSHKey, where: dict[str, Any]) -> int:
        async def talk(process: asyncssh.SSHServerProcess[str]) -> None:
            await _Talk(device, process).run()

        server = await asyncssh.create_server(
            lambda: _Login(device),
            **where,
            server_host_keys=[key],
            process_factory=talk,
            line_editor=False,
            **_algorithms(device),
        )
        self._servers.append((device, server))
        self._devices.append(device)
        return server.get_port()


class _Talk:
    """One terminal over one ssh channel."""

    def __init__(self, device: Device, process: asyncssh.SSHServerProcess[str]) -> None:
        self.device = device
        self.process = process
        user = process.get_extra_info("username")
        self.terminal = Terminal(Session(device, user))
        self._unheard = ""

    async def run(self) -> None:
        self.device.on_message.append(self._interrupt)
        self.device.on_tick.append(self.flush)
        self.device.on_down.append(self._end)
        try:
            await self._write(self.terminal.greet())
            while not self.terminal.session.closed:
                data = await self.process.stdin.read(4096)
                if not data:
                    break
                await self._while(lambda: not self.device.plane.manageable())
                await self._keys(data)
        except (asyncssh.Error, OSError):
            pass  # the connection is gone, as connections go
        finally:
            self.device.on_message.remove(self._interrupt)
            self.device.on_tick.remove(self.flush)
            self.device.on_down.remove(self._end)
            self.process.exit(0)

    async def _keys(self, data: str) -> None:
        for echo in self.terminal.keys(data):
            await self._write(echo)
            line, self.terminal.entered = self.terminal.entered, None
            if line is None:
                continue
            await self._line(line)
            if self.terminal.session.closed:
                return

    async def _line(self, line: str) -> None:
        if self.device.knobs.latency_seconds:
            await asyncio.sleep(self.device.knobs.latency_seconds)
        answer = self.terminal.answer(line)
        fault = self.device.strikes(line)
        if fault == "drop":
            self._end()
            self.process.get_extra_info("connection").abort()
        await self._write(answer)

    @staticmethod
    async def _while(condition: Callable[[], bool]) -> None:
        while condition():
            await asyncio.sleep(_TICK_SECONDS)

    async def _write(self, text: str) -> None:
        """A frozen switch does nothing; one that is cut off goes on, and is heard later."""
        await self._while(lambda: self.device.frozen)
        if not self.terminal.session.closed:
            self._hear(text)

    def flush(self) -> None:
        if self._unheard and not self.process.is_closing() and self.device.plane.manageable():
            text, self._unheard = self._unheard, ""
            self.process.stdout.write(text)

    def _end(self) -> None:
        """Whatever has been typed ahead is lost with the session."""
        self.terminal.session.closed = True
        self._unheard = ""

    def _interrupt(self, text: str) -> None:
        """Printed once the line at hand has its answer, as another process of a switch does."""
        asyncio.get_running_loop().call_soon(self._hear, self.terminal.interrupt(text))

    def _hear(self, text: str) -> None:
        self._unheard += text
        self.flush()
