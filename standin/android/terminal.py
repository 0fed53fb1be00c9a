"""The Termux app on a stand-in phone: what its first start unpacks, and the shell on its screen."""

from __future__ import annotations

import asyncio
import os
import pty
from contextlib import suppress

from standin.android.binder import Failed
from standin.android.inside import HOME, PREFIX, Inside, kill

DATA = "/data/data/com.termux"
BOOTSTRAP = "/system/app/com.termux/bootstrap"

_KEYS = {"ENTER": b"\r", "66": b"\r", "KEYCODE_ENTER": b"\r", "61": b"\t", "67": b"\x7f"}

# Whole or not at all, as the app does it: what an interrupted start left goes first.
_UNPACK = f"""
[ -d {PREFIX} ] && exit
rm -rf {DATA}.new && mkdir -p {DATA}.new/files/home {DATA}.new/cache &&
cp -a {BOOTSTRAP} {DATA}.new/files/usr && chown -hR "$1:$1" {DATA}.new &&
chmod 0700 {DATA}.new {DATA}.new/files {DATA}.new/files/home &&
rm -rf {DATA} && mv {DATA}.new {DATA}
"""


class Terminal:
    """One running Termux. Text typed before its shell is there is lost, as on a phone."""

    def __init__(self, inside: Inside, uid: int) -> None:
        self._inside, self._uid = inside, uid
        self._shell: asyncio.subprocess.Process | None = None
        self._master = -1
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        done = await self._inside.run(0, ["/system/bin/sh", "-c", _UNPACK, "sh", str(self._uid)])
        if done.code:
            raise Failed(f"Termux cannot unpack: {done.err.decode(errors='replace')}")
        await self._open_shell()

    async def _open_shell(self) -> None:
        self._master, slave = pty.openpty()
        try:
            self._shell = await self._inside.start(
                self._uid,
                ["/system/bin/sh", "-c", f"cd {HOME} && exec {PREFIX}/bin/bash -l"],
                stdin=slave,
                stdout=slave,
                stderr=slave,
            )
        finally:
            os.close(slave)
        os.set_blocking(self._master, False)
        asyncio.get_running_loop().add_reader(self._master, self._discard)

    def _discard(self) -> None:
        """What the shell prints is on a screen that nobody looks at."""
        try:
            os.read(self._master, 65536)
        except OSError:
            asyncio.get_running_loop().remove_reader(self._master)

    @property
    def ready(self) -> bool:
        return self._shell is not None and self._shell.returncode is None

    @property
    def ended(self) -> bool:
        """Whether its shell has been left, or it could not start."""
        return self._starting.done() and not self.ready

    def type(self, text: bytes) -> None:
        if self.ready:
            with suppress(OSError):
                os.write(self._master, text)

    def press(self, key: str) -> None:
        self.type(_KEYS.get(key.upper(), b""))

    def close(self) -> None:
        self._starting.cancel()
        if self._shell is not None:
            kill(self._shell)
        if self._master >= 0:
            asyncio.get_running_loop().remove_reader(self._master)
            os.close(self._master)
            self._master = -1
