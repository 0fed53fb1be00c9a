"""The package manager at work on a stand-in phone, and `run-as`, which enters an app's data."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from standin.android import packages, values
from standin.android.binder import SHELL_UID, Call, Failed
from standin.android.inside import kill, pipes
from standin.android.state import TERMUX
from standin.android.terminal import DATA

if TYPE_CHECKING:
    from standin.android.handset import Handset

_SHELL = "/system/bin/sh"


# All of a user's at once, so that no supervisor starts anything anew; more than once, for what was
# just being started.
_END_ALL = """
for round in 1 2 3; do
    found=
    for place in /proc/[0-9]*; do
        [ "$(stat -c %u "$place" 2>/dev/null)" != "$0" ] || found="$found ${place#/proc/}"
    done
    [ -z "$found" ] || kill -9 $found
done
"""


class Apps:
    def __init__(self, handset: Handset) -> None:
        self._handset = handset

    async def pm(self, call: Call) -> int:
        verb = call.word(0)
        if verb == "list" and call.word(1) == "packages":
            return await packages.list_packages(self._handset.state, call)
        if verb == "path":
            return await packages.path(self._handset.state, call)
        if verb == "resolve-activity":
            return await packages.resolve_activity(self._handset.state, call)
        values.shell_only(call)
        if verb == "install":
            return await self._install(call)
        if verb == "uninstall":
            return await self._uninstall(call)
        if verb in ("grant", "revoke"):
            packages.grant(self._handset.state, verb, call.word(1), call.word(2))
            return 0
        raise Failed(f"Unknown command: {verb}")

    async def _install(self, call: Call) -> int:
        words = call.words[1:]
        data = await packages.streamed(call)
        if data is None:
            path = packages.path_of(words)
            read = await self._handset.phone.run(SHELL_UID, ["/system/bin/cat", path])
            if read.code:
                raise Failed(f"Error: Unable to open file: {path}", 1)
            data = read.out
        content = packages.content_of(data)
        app = packages.decide(self._handset.state, content, words)
        packages.enter(self._handset.state, content.package, app)
        if content.package == TERMUX:
            await self._handset.phone.run(0, ["/system/bin/users", str(app.uid)])
        await call.say("Success\n")
        return 0

    async def _uninstall(self, call: Call) -> int:
        package = next((word for word in call.words[1:] if not word.startswith("-")), "")
        app = packages.forget(self._handset.state, package)
        if package == TERMUX:
            self._handset.screen.close()
            await self._handset.phone.run(0, ["/system/bin/sh", "-c", _END_ALL, str(app.uid)])
            await self._handset.phone.run(0, ["/system/bin/rm", "-rf", DATA])
            await self._handset.phone.run(0, ["/system/bin/users", ""])
        await call.say("Success\n")
        return 0

    async def run_as(self, call: Call) -> int:
        """run-as PACKAGE COMMAND…: adb's shell becomes an app, if that is built for it."""
        package, words = call.word(0), call.words[1:]
        app = self._handset.state.apps.get(package)
        if call.is_app:
            raise Failed("run-as: only 'shell' or 'root' users can run this program", 1)
        if app is None:
            raise Failed(f"run-as: unknown package: {package}", 1)
        if not app.debuggable:
            raise Failed(f"run-as: package not debuggable: {package}", 1)
        if package != TERMUX or not app.opened:
            raise Failed(f"run-as: couldn't stat /data/user/0/{package}: No such file", 1)
        inside = self._handset.phone
        pipe = asyncio.subprocess.PIPE
        script = 'cd "$0" && exec "$@"'
        process = await inside.start(
            app.uid,
            ["/system/bin/sh", "-c", script, DATA, *(words or ["/system/bin/sh"])],
            env={"PATH": "/system/bin", "HOME": DATA, "ANDROID_ROOT": "/system"},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        )
        try:
            return await _attend(process, call)
        finally:
            if process.returncode is None:
                kill(process)


async def _attend(process: asyncio.subprocess.Process, call: Call) -> int:
    stdin, stdout, stderr = pipes(process)

    async def feed() -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            async for piece in call.input():
                stdin.write(piece)
                await stdin.drain()
        stdin.close()

    async def pump(source: asyncio.StreamReader, *, error: bool) -> None:
        while piece := await source.read(32768):
            await call.say(piece, error=error)

    feeding = asyncio.create_task(feed())
    try:
        await asyncio.gather(pump(stdout, error=False), pump(stderr, error=True))
        code = await process.wait()
        return code if code >= 0 else 128 - code
    finally:
        feeding.cancel()
