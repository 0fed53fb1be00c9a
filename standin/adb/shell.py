"""adb's services that run a command: `shell:`, `shell,v2:`, `exec:`, as adb's shell user."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import struct
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from standin.adb.connection import Service, Stream
from standin.android.inside import SHELL_UID, Inside, kill, pipes

_PIECE = 32768
_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
_HEAD = struct.Struct("<BI")

type Put = Callable[[bytes], Awaitable[None]]


def service(inside: Inside, name: str) -> Service:
    """The service behind a name such as `shell,v2,raw:getprop`."""
    kind, _, command = name.partition(":")
    options = kind.split(",")
    words = ["/system/bin/sh", "-c", command] if command else ["/system/bin/sh", "-"]
    wants_terminal = "pty" in options or (not command and "raw" not in options)
    if "v2" in options:
        return lambda stream: _framed(inside, stream, words, wants_terminal)
    return lambda stream: _plain(inside, stream, words, merge=options[0] == "shell")


async def _plain(inside: Inside, stream: Stream, words: list[str], *, merge: bool) -> None:
    """No frames: the output as it comes, with standard error in it for `shell:`."""
    pipe = asyncio.subprocess.PIPE
    process = await inside.start(SHELL_UID, words, stdin=pipe, stdout=pipe, stderr=pipe)
    stdin, stdout, stderr = pipes(process)

    async def feed() -> None:
        while piece := await stream.read():
            stdin.write(piece)
            await stdin.drain()
        stdin.close()

    async def forget(_: bytes) -> None:
        pass

    said = stream.write if merge else forget
    await _attend(process, stream, feed(), _pump(stdout, stream.write), _pump(stderr, said))


async def _framed(inside: Inside, stream: Stream, words: list[str], terminal: bool) -> None:
    """Shell protocol: output and error apart, and the exit code at the end."""

    def put(kind: int) -> Put:
        return lambda data: stream.write(_HEAD.pack(kind, len(data)) + data)

    if terminal:
        process, reader, feeder = await _on_terminal(inside, words)
        pumps = [_pump(reader, put(_STDOUT))]
    else:
        pipe = asyncio.subprocess.PIPE
        process = await inside.start(SHELL_UID, words, stdin=pipe, stdout=pipe, stderr=pipe)
        feeder, stdout, stderr = pipes(process)
        pumps = [_pump(stdout, put(_STDOUT)), _pump(stderr, put(_STDERR))]

    async def feed() -> None:
        while True:
            kind, size = _HEAD.unpack(await stream.read_exactly(_HEAD.size))
            data = await stream.read_exactly(size) if size else b""
            if kind == _STDIN:
                with suppress(ConnectionError):
                    feeder.write(data)
                    await feeder.drain()
            elif kind == _CLOSE_STDIN:
                feeder.close()

    code = await _attend(process, stream, feed(), *pumps)
    await put(_EXIT)(bytes([code & 0xFF]))


async def _on_terminal(
    inside: Inside, words: list[str]
) -> tuple[asyncio.subprocess.Process, asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    master, slave = pty.openpty()
    process = await inside.start(SHELL_UID, words, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(master), "rb", 0)
    )
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(master, "wb", 0)
    )
    return process, reader, asyncio.StreamWriter(transport, protocol, None, loop)


async def _pump(source: asyncio.StreamReader, put: Put) -> None:
    # A terminal whose last program has ended answers with an error instead of an end.
    with suppress(OSError):
        while piece := await source.read(_PIECE):
            await put(piece)


async def _all(*pumps: Coroutine[Any, Any, None]) -> None:
    await asyncio.gather(*pumps)


async def _attend(
    process: asyncio.subprocess.Process,
    stream: Stream,
    feed: Coroutine[Any, Any, None],
    *pumps: Coroutine[Any, Any, None],
) -> int:
    """Wait for the end of a command; it is ended when the other side has gone."""
    feeding = asyncio.create_task(feed)
    pumping = asyncio.create_task(_all(*pumps))
    gone = asyncio.create_task(stream.closed.wait())
    try:
        await asyncio.wait([pumping, gone], return_when=asyncio.FIRST_COMPLETED)
        if not pumping.done():
            kill(process, signal.SIGHUP)
        else:
            pumping.result()
        code = await process.wait()
        return code if code >= 0 else 128 - code
    finally:
        for task in (feeding, pumping, gone):
            task.cancel()
        await asyncio.gather(feeding, pumping, gone, return_exceptions=True)
        if process.returncode is None:
            kill(process)
