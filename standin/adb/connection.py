"""One computer's connection to a phone's adb daemon: who it is, and the streams that it opens."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from standin.adb import wire
from standin.adb.wire import Message, ProtocolError

log = logging.getLogger(__name__)


class Phone(Protocol):
    """What the daemon must know of its phone."""

    @property
    def banner(self) -> str: ...

    @property
    def accepted_keys(self) -> list[str]: ...

    async def thawed(self) -> None: ...

    async def asks(self, key: str) -> None:
        """Show the dialog for this key; returns when somebody has accepted it."""

    def service(self, name: str) -> Service | None: ...


class Stream:
    """One stream of a connection, in the phone's hands. Reading acknowledges what was read."""

    def __init__(self, connection: Connection, own: int, theirs: int) -> None:
        self._connection = connection
        self._own, self._theirs = own, theirs
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._ready = asyncio.Event()
        self._rest = b""
        self._ended = False
        self.closed = asyncio.Event()

    async def read(self) -> bytes:
        """The next piece; empty once the other side has closed."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        if self._ended:
            return b""
        piece = await self._pieces.get()
        if not piece:
            self._ended = True
            return b""
        await self._connection.send(Message(wire.OKAY, self._own, self._theirs))
        return piece

    async def read_exactly(self, size: int) -> bytes:
        """Raises EOFError when the stream ends before."""
        data = b""
        while len(data) < size:
            piece = await self.read()
            if not piece:
                raise EOFError
            data += piece
        data, self._rest = data[:size], data[size:] + self._rest
        return data

    async def write(self, data: bytes) -> None:
        """Raises ConnectionError once the other side has closed."""
        limit = self._connection.max_payload
        for place in range(0, len(data), limit):
            if self.closed.is_set():
                raise ConnectionResetError
            self._ready.clear()
            await self._connection.send(
                Message(wire.WRTE, self._own, self._theirs, data[place : place + limit])
            )
            await self._ready.wait()
        if self.closed.is_set():
            raise ConnectionResetError

    def take(self, piece: bytes) -> None:
        self._pieces.put_nowait(piece)

    def acknowledged(self) -> None:
        self._ready.set()

    def close(self) -> None:
        self.closed.set()
        self._ready.set()
        self._pieces.put_nowait(b"")


type Service = Callable[[Stream], Awaitable[None]]


class Connection:
    """Serves one computer until it leaves, or is not let in."""

    def __init__(
        self, phone: Phone, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.phone = phone
        self.max_payload = wire.MAX_PAYLOAD
        self._reader, self._writer = reader, writer
        self._streams: dict[int, Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ids = itertools.count(1)
        self._sending = asyncio.Lock()

    async def send(self, message: Message) -> None:
        async with self._sending:
            await self.phone.thawed()
            self._writer.write(message.pack())
            await self._writer.drain()

    async def serve(self) -> None:
        try:
            first = await wire.read_message(self._reader)
            if first.command != wire.CNXN:
                raise ProtocolError(f"the first message is {first.command!r}")
            self.max_payload = min(first.second, wire.MAX_PAYLOAD)
            await self._let_in()
            while True:
                await self._take(await wire.read_message(self._reader))
        except (asyncio.IncompleteReadError, OSError):
            pass
        except ProtocolError as problem:
            log.info("adb: %s", problem)
        finally:
            for stream in self._streams.values():
                stream.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._writer.close()

    async def _let_in(self) -> None:
        """Returns when the computer has proved to hold an accepted key."""
        asking: asyncio.Task[None] | None = None
        try:
            while True:
                token = os.urandom(wire.TOKEN_BYTES)
                await self.send(Message(wire.AUTH, wire.AUTH_TOKEN, 0, token))
                reply = await wire.read_message(self._reader)
                if reply.command == wire.AUTH and reply.first == wire.AUTH_SIGNATURE:
                    keys = self.phone.accepted_keys
                    if any(wire.accepts(key, token, reply.body) for key in keys):
                        break
                elif reply.command == wire.AUTH and reply.first == wire.AUTH_PUBLIC_KEY:
                    key = reply.body.rstrip(b"\0").decode(errors="replace")
                    asking = asyncio.create_task(self.phone.asks(key))
                    gone = asyncio.create_task(self._reader.read(1))
                    await asyncio.wait([asking, gone], return_when=asyncio.FIRST_COMPLETED)
                    gone.cancel()
                    await asyncio.gather(gone, return_exceptions=True)
                    if not asking.done():
                        raise ConnectionResetError
                    break
                else:
                    raise ProtocolError(f"{reply.command!r} before it was let in")
        finally:
            if asking:
                asking.cancel()
        banner = self.phone.banner.encode()
        await self.send(Message(wire.CNXN, wire.VERSION, wire.MAX_PAYLOAD, banner))

    async def _take(self, message: Message) -> None:
        if message.command == wire.OPEN:
            await self._open(message)
            return
        stream = self._streams.get(message.second)
        if stream is None:
            if message.command == wire.WRTE:
                await self.send(Message(wire.CLSE, 0, message.first))
        elif message.command == wire.WRTE:
            stream.take(message.body)
        elif message.command == wire.OKAY:
            stream.acknowledged()
        elif message.command == wire.CLSE:
            stream.close()

    async def _open(self, message: Message) -> None:
        name = message.body.rstrip(b"\0").decode(errors="replace")
        service = self.phone.service(name)
        if service is None:
            await self.send(Message(wire.CLSE, 0, message.first))
            return
        own = next(self._ids)
        stream = self._streams[own] = Stream(self, own, message.first)
        await self.send(Message(wire.OKAY, own, message.first))
        task = asyncio.create_task(self._run(name, service, stream, own, message.first))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(
        self, name: str, service: Service, stream: Stream, own: int, theirs: int
    ) -> None:
        try:
            await service(stream)
        except (ConnectionError, EOFError):
            pass
        except Exception:
            log.exception("adb service %s", name)
        finally:
            stream.close()
            del self._streams[own]
            with suppress(OSError):
                await self.send(Message(wire.CLSE, own, theirs))
