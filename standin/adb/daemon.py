"""adb's daemon of one stand-in phone: on USB (a loopback port stands for it) and on the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

from standin.adb import shell, sync
from standin.adb.connection import Connection, Service, Stream
from standin.android.binder import SHELL_UID, Call, answer
from standin.android.inside import Inside

if TYPE_CHECKING:
    from standin.android.handset import Handset

THAW_POLL_SECONDS = 0.2
# The daemon answers first, and starts anew then.
RESTART_SECONDS = 0.2
_FEATURES = "shell_v2,cmd,stat_v2"


class Daemon:
    def __init__(self, handset: Handset) -> None:
        self._handset = handset
        self.usb_port = 0
        self.asking: tuple[str, asyncio.Event] | None = None
        """The key of the computer that the dialog on the screen is about."""
        self._usb: asyncio.Server | None = None
        self._tcp: asyncio.Server | None = None
        self._connections: dict[asyncio.Future[None], bool] = {}
        self._restarting: asyncio.Task[None] | None = None

    @property
    def banner(self) -> str:
        props = dict(
            line.strip("[]\n").split("]: [", 1)
            for line in (self._handset.folder / "props.txt").read_text().splitlines()
            if "]: [" in line
        )
        model = props.get("ro.product.model", "")
        features = _FEATURES + (",abb,abb_exec" if self._handset.state.api_level >= 30 else "")
        return (
            f"device::ro.product.name={model};ro.product.model={model};"
            f"ro.product.device={model};features={features}"
        )

    @property
    def accepted_keys(self) -> list[str]:
        return self._handset.state.adb_keys

    async def thawed(self) -> None:
        """A frozen phone answers nothing, and does not know that it did not."""
        while self._handset.inside and self._handset.inside.frozen:
            await asyncio.sleep(THAW_POLL_SECONDS)

    async def asks(self, key: str) -> None:
        accepted = asyncio.Event()
        self.asking = (key, accepted)
        try:
            await accepted.wait()
        finally:
            self.asking = None

    def service(self, name: str) -> Service | None:
        inside = self._handset.inside
        kind, _, argument = name.partition(":")
        if inside is None:
            return None
        if kind.split(",")[0] in ("shell", "exec"):
            return shell.service(inside, name)
        if kind == "sync":
            return lambda stream: sync.service(inside, stream)
        if kind == "tcp" and argument.isdigit():
            return lambda stream: _forward(inside, stream, int(argument))
        if kind == "abb_exec" and self._handset.state.api_level >= 30:
            return lambda stream: self._abb(stream, argument.split("\0"))
        if kind == "tcpip" and argument.isdigit():
            return lambda stream: self._to_tcp(stream, int(argument))
        if kind == "usb":
            return self._to_usb
        return None

    async def serve_usb(self) -> None:
        """USB leads to the computer or not; a loopback port of this machine stands for it."""
        if self._handset.state.usb == "controller" and self._usb is None:
            self._usb = await asyncio.start_server(
                lambda r, w: self._connected(r, w, usb=True), "127.0.0.1", self.usb_port
            )
            self.usb_port = self._usb.sockets[0].getsockname()[1]
        self._handset.moved()

    async def close_usb(self) -> None:
        server, self._usb = self._usb, None
        if server:
            server.close()
        await self._drop(usb=True)
        self._handset.moved()

    @property
    def on_usb(self) -> bool:
        return self._usb is not None

    async def serve_tcp(self, port: int) -> None:
        await self.close_tcp()
        listener = await self._handset.phone.listener(port)
        self._tcp = await asyncio.start_server(
            lambda r, w: self._connected(r, w, usb=False), sock=listener
        )
        self._handset.state.adb_tcp_port = port
        self._handset.save()

    async def close_tcp(self) -> None:
        server, self._tcp = self._tcp, None
        if server:
            server.close()
        await self._drop(usb=False)

    async def _connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, usb: bool
    ) -> None:
        task = asyncio.ensure_future(Connection(self, reader, writer).serve())
        self._connections[task] = usb
        try:
            with suppress(asyncio.CancelledError):
                await task
        finally:
            task.cancel()
            del self._connections[task]

    async def _drop(self, *, usb: bool) -> None:
        for task, is_usb in list(self._connections.items()):
            if is_usb == usb:
                task.cancel()

    async def _to_tcp(self, stream: Stream, port: int) -> None:
        """adb's daemon starts anew, and listens on the network too; a reboot ends that."""
        await stream.write(f"restarting in TCP mode port: {port}\n".encode())
        asyncio.get_running_loop().call_later(RESTART_SECONDS, self._restart_adb, port)

    async def _to_usb(self, stream: Stream) -> None:
        await stream.write(b"restarting in USB mode\n")
        asyncio.get_running_loop().call_later(RESTART_SECONDS, self._restart_adb, 0)

    def _restart_adb(self, port: int) -> None:
        async def restart() -> None:
            if port:
                await self.serve_tcp(port)
            else:
                self._handset.state.adb_tcp_port = 0
                self._handset.save()
                await self.close_tcp()
            await self._drop(usb=True)

        self._restarting = asyncio.create_task(restart())

    async def _abb(self, stream: Stream, words: list[str]) -> None:
        """A service's answer without a shell between: how newer computers install."""
        call = Call("cmd", words, SHELL_UID, _input=lambda: _pieces(stream))

        async def put(_kind: bytes, data: bytes) -> None:
            await stream.write(data)

        call._out = put
        await answer(self._handset.handle, call)


async def _forward(inside: Inside, stream: Stream, port: int) -> None:
    """A computer's `adb forward`: a connection to a port of the phone's own loopback."""
    reader, writer = await inside.connect(port)

    async def there() -> None:
        while piece := await stream.read():
            writer.write(piece)
            await writer.drain()
        writer.close()

    going = asyncio.create_task(there())
    try:
        while piece := await reader.read(65536):
            await stream.write(piece)
    finally:
        going.cancel()
        writer.close()


async def _pieces(stream: Stream) -> AsyncIterator[bytes]:
    while piece := await stream.read():
        yield piece
