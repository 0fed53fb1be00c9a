"""The other side of a phone's command-line tools: `image/binder.c` tells the form of what passes.

Each phone has a socket in its hardware folder, which it sees as `/standin/hw/binder`. Who calls is
what the kernel says, so the app's user can pass for nobody else.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

SOCKET = "binder"
FIRST_APP_UID = 10_000
SHELL_UID = 2000
_HEAD = struct.Struct(">cI")
_PEER = struct.Struct("3i")
_WORDS_LIMIT_BYTES = 1 << 20


class Failed(Exception):
    """A tool's complaint: what it prints to standard error, and its exit code."""

    def __init__(self, message: str, code: int = 255) -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class Call:
    """One call of a tool: `words` without the tool's own name."""

    tool: str
    words: list[str]
    uid: int
    pid: int = 0
    _out: Callable[[bytes, bytes], Awaitable[None]] | None = None
    _input: Callable[[], AsyncIterator[bytes]] | None = None
    _gone: Callable[[], Awaitable[None]] | None = None
    output: bytearray = field(default_factory=bytearray)
    """What was said to somebody who only listens afterwards."""

    @property
    def is_app(self) -> bool:
        return self.uid >= FIRST_APP_UID

    def word(self, place: int, otherwise: str = "") -> str:
        return self.words[place] if place < len(self.words) else otherwise

    async def say(self, text: str | bytes, *, error: bool = False) -> None:
        data = text.encode() if isinstance(text, str) else text
        if self._out is None:
            self.output += data
        elif data:
            await self._out(b"E" if error else b"O", data)

    async def input(self) -> AsyncIterator[bytes]:
        """Standard input, piece by piece, which is read from the caller only from now on."""
        if self._input is not None:
            async for piece in self._input():
                yield piece

    async def gone(self) -> None:
        """Returns when the caller has ended; its standard input cannot be read meanwhile."""
        if self._gone is not None:
            await self._gone()


type Handler = Callable[[Call], Awaitable[int]]
"""Answers a call and returns its exit code; may raise Failed."""


async def answer(handler: Handler, call: Call) -> int:
    try:
        return await handler(call)
    except Failed as problem:
        await call.say(f"{problem}\n", error=True)
        return problem.code


async def listen(folder: Path, handler: Handler) -> asyncio.Server:
    """Answer the tools of the phone with this hardware folder, until the server is closed."""
    path = folder / SOCKET
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    # By way of an open folder: a socket's own path may have 107 characters only.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{descriptor}/{SOCKET}")
        path.chmod(0o666)
    finally:
        os.close(descriptor)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await _converse(reader, writer, handler)
        writer.close()

    return await asyncio.start_unix_server(converse, sock=listener)


async def _converse(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler
) -> None:
    kind, size = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if kind != b"C" or size > _WORDS_LIMIT_BYTES:
        return
    tool, *words = (await reader.readexactly(size)).decode(errors="replace").split("\0")[:-1]
    peer = writer.get_extra_info("socket").getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size
    )
    pid, uid, _ = _PEER.unpack(peer)

    async def send(kind: bytes, data: bytes) -> None:
        writer.write(_HEAD.pack(kind, len(data)) + data)
        await writer.drain()

    async def receive() -> AsyncIterator[bytes]:
        await send(b"W", b"")
        while True:
            _, size = _HEAD.unpack(await reader.readexactly(_HEAD.size))
            piece = await reader.readexactly(size)
            if not piece:
                return
            yield piece

    async def leave() -> None:
        while await reader.read(_WORDS_LIMIT_BYTES):
            pass

    call = Call(tool, words, uid, pid, send, receive, leave)
    await send(b"X", bytes([await answer(handler, call) & 0xFF]))
