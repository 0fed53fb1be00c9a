"""adb's file service `sync:` (stat, list, send, receive; also the second form of stat).

Files are read and written by programs of the phone that run as adb's shell user, so that nothing is
possible here that is not on a phone.
"""

from __future__ import annotations

import struct
from pathlib import PurePosixPath

from standin.adb.connection import Stream
from standin.android.inside import SHELL_UID, Inside

_HEAD = struct.Struct("<4sI")
_STAT_V2 = struct.Struct("<4sIQQIIIIQqqq")
_PIECE = 65536
_ENOENT = 2

# %f mode, %s size, %Y time of change, %i inode, %h links, %u and %g owner, %X time of access
_STAT_FORMAT = "%f %s %Y %i %h %u %g %X"

_WRITE = 'mkdir -p "$2" 2>/dev/null; rm -f "$1" 2>/dev/null; cat >"$1" && chmod "$3" "$1"'


async def service(inside: Inside, stream: Stream) -> None:
    while True:
        kind, size = _HEAD.unpack(await stream.read_exactly(_HEAD.size))
        if kind == b"QUIT":
            return
        argument = (await stream.read_exactly(size)).decode(errors="surrogateescape")
        if kind == b"STAT":
            mode, length, changed = (await _stat(inside, argument, follow=False))[:3]
            await stream.write(struct.pack("<4sIII", b"STAT", mode, length & 0xFFFFFFFF, changed))
        elif kind in (b"STA2", b"LST2"):
            await _stat_v2(inside, stream, kind, argument)
        elif kind == b"LIST":
            await _list(inside, stream, argument)
        elif kind == b"SEND":
            await _receive(inside, stream, argument)
        elif kind == b"RECV":
            await _send(inside, stream, argument)
        else:
            await _fail(stream, f"unknown request {kind!r}")
            return


async def _stat(inside: Inside, path: str, *, follow: bool) -> list[int]:
    """Mode, size, time, inode, links, owner, group, time of access; zeros where there is none."""
    options = ("-L",) if follow else ()
    done = await inside.run(
        SHELL_UID, ["/system/bin/stat", *options, "-c", _STAT_FORMAT, "--", path]
    )
    if done.code:
        return [0] * 8
    mode, *rest = done.out.split()
    return [int(mode, 16), *map(int, rest)]


async def _stat_v2(inside: Inside, stream: Stream, kind: bytes, path: str) -> None:
    found = await _stat(inside, path, follow=kind == b"STA2")
    mode, size, changed, inode, links, uid, gid, read = found
    error = 0 if mode else _ENOENT
    await stream.write(
        _STAT_V2.pack(kind, error, 0, inode, mode, links, uid, gid, size, read, changed, changed)
    )


async def _list(inside: Inside, stream: Stream, path: str) -> None:
    done = await inside.run(SHELL_UID, ["/system/bin/ls", "-A", "--", path])
    for name in done.out.decode(errors="surrogateescape").splitlines():
        mode, size, changed = (await _stat(inside, str(PurePosixPath(path) / name), follow=False))[
            :3
        ]
        raw = name.encode(errors="surrogateescape")
        await stream.write(struct.pack("<4sIIII", b"DENT", mode, size, changed, len(raw)) + raw)
    await stream.write(struct.pack("<4sIIII", b"DONE", 0, 0, 0, 0))


async def _receive(inside: Inside, stream: Stream, target: str) -> None:
    """A file from the computer; `target` is its path and, behind a comma, its mode."""
    path, _, mode = target.rpartition(",")
    data = bytearray()
    while True:
        kind, size = _HEAD.unpack(await stream.read_exactly(_HEAD.size))
        if kind == b"DONE":
            break
        if kind != b"DATA":
            raise ConnectionResetError
        data += await stream.read_exactly(size)
    folder = str(PurePosixPath(path).parent)
    permissions = f"{int(mode) & 0o777:o}"
    words = ["/system/bin/sh", "-c", _WRITE, "sh", path, folder, permissions]
    done = await inside.run(SHELL_UID, words, bytes(data))
    if done.code:
        said = done.err.decode(errors="replace").strip().rpartition(": ")[2]
        await _fail(stream, f"couldn't create file: {said}")
        return
    await stream.write(_HEAD.pack(b"OKAY", 0))


async def _send(inside: Inside, stream: Stream, path: str) -> None:
    done = await inside.run(SHELL_UID, ["/system/bin/cat", "--", path])
    if done.code:
        said = done.err.decode(errors="replace").strip().rpartition(": ")[2]
        await _fail(stream, f"open failed: {said}")
        return
    for place in range(0, len(done.out), _PIECE):
        piece = done.out[place : place + _PIECE]
        await stream.write(_HEAD.pack(b"DATA", len(piece)) + piece)
    await stream.write(_HEAD.pack(b"DONE", 0))


async def _fail(stream: Stream, why: str) -> None:
    raw = why.encode()
    await stream.write(_HEAD.pack(b"FAIL", len(raw)) + raw)
