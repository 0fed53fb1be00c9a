"""One stand-in phone's Android at work: its tools, its apps, its screen, its adb daemon.

It is on while `init` of its container holds a call of `power-on` open, and so needs no watching.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from standin.adb.daemon import Daemon
from standin.android import dump, values
from standin.android.apps import Apps
from standin.android.binder import Call, Failed, listen
from standin.android.inside import Inside
from standin.android.screen import Screen
from standin.android.state import AndroidState, Usb, read_state, write_state
from standin.errors import StandinError

_LOG_LINES = 1000

type Tool = Callable[[Call], Awaitable[int]]


class Handset:
    """`folder` is the phone's hardware folder; `moved` is told when its USB cable or power does."""

    def __init__(self, name: str, folder: Path, moved: Callable[[], None]) -> None:
        self.name, self.folder = name, folder
        self.state: AndroidState = read_state(folder)
        self.inside: Inside | None = None
        self.screen = Screen(self)
        self.apps = Apps(self)
        self.adb = Daemon(self)
        self.log: list[str] = []
        self.moved = moved
        self._binder: asyncio.Server | None = None
        self._tools: dict[str, Tool] = {
            "power-on": self._power_on,
            "settings": lambda call: values.settings(self.state, call),
            "device_config": lambda call: values.device_config(self.state, call),
            "svc": lambda call: values.svc(self.state, call),
            "locksettings": lambda call: values.locksettings(self.state, call),
            "dumpsys": lambda call: dump.dumpsys(self.state, call, self.folder),
            "pm": self.apps.pm,
            "am": self.screen.am,
            "input": self.screen.input,
            "wm": self.screen.wm,
            "run-as": self.apps.run_as,
            "log": self._log,
            "logcat": self._logcat,
            "cmd": self._cmd,
        }
        self._services: dict[str, Tool] = {
            "settings": self._tools["settings"],
            "device_config": self._tools["device_config"],
            "package": self.apps.pm,
            "activity": self.screen.am,
            "appops": lambda call: values.appops(self.state, call),
            "deviceidle": lambda call: values.deviceidle(self.state, call),
            "lock_settings": self._tools["locksettings"],
        }

    # ---- on and off --------------------------------------------------------------------------

    async def open(self) -> None:
        self._binder = await listen(self.folder, self.handle)

    async def close(self) -> None:
        await self._power_off()
        if self._binder:
            self._binder.close()

    async def _power_on(self, call: Call) -> int:
        """The phone has started; it is on until whoever called has ended."""
        if call.uid != 0:
            raise Failed("power-on: not permitted", 1)
        self.inside = Inside(call.pid)
        self.state.boots(call.word(0))
        self.save()
        try:
            await self.adb.serve_usb()
            if self.state.adb_tcp_port:
                # The same boot: it was the daemon that had gone.
                await self.adb.serve_tcp(self.state.adb_tcp_port)
            await call.gone()
        finally:
            await self._power_off()
        return 0

    async def _power_off(self) -> None:
        self.inside = None
        self.screen.close()
        await self.adb.close_tcp()
        await self.adb.close_usb()

    def save(self) -> None:
        write_state(self.folder, self.state)

    @property
    def phone(self) -> Inside:
        """Raises StandinError while the phone is off."""
        if self.inside is None:
            raise StandinError(f"{self.name} is off: heal it first")
        return self.inside

    # ---- what hands do -----------------------------------------------------------------------

    async def plug(self, usb: Usb) -> None:
        self.state.usb = usb
        self.save()
        await self.adb.close_usb()
        if self.inside:
            await self.adb.serve_usb()

    def unlock(self) -> None:
        self.state.awake, self.state.keyguard, self.state.unlocked = True, False, True
        self.save()

    def lock(self, *, pin: bool) -> None:
        self.state.lock_screen = "pin" if pin else "swipe"
        self.state.awake, self.state.keyguard = False, True
        self.save()

    def unguard(self) -> None:
        """Take the lock screen away, as enrolment leaves a phone."""
        self.state.lock_screen = "none"
        self.unlock()

    def authorize(self) -> None:
        """Accept the dialog. Raises StandinError where none is to be seen."""
        if self.adb.asking is None:
            raise StandinError(f"{self.name} shows no dialog: no unknown computer has asked it")
        if self.state.keyguard:
            raise StandinError(f"{self.name} is locked, and so hides the dialog: unlock it first")
        key, accepted = self.adb.asking
        self.state.adb_keys.append(key)
        self.save()
        accepted.set()

    # ---- tools -------------------------------------------------------------------------------

    async def handle(self, call: Call) -> int:
        tool = self._tools.get(call.tool)
        if tool is None:
            raise Failed(f"/system/bin/sh: {call.tool}: not found", 127)
        code = await tool(call)
        if call.tool not in ("power-on", "log", "logcat", "run-as"):
            self.save()
        return code

    async def _cmd(self, call: Call) -> int:
        """cmd SERVICE ARGUMENTS"""
        name = call.word(0)
        while call.words and call.word(0).startswith("-"):
            call.words = call.words[1:]
            name = call.word(0)
        service = self._services.get(name)
        if service is None or (name == "device_config" and self.state.api_level < 29):
            raise Failed(f"cmd: Can't find service: {name}", 20)
        call.words = call.words[1:]
        return await service(call)

    async def _log(self, call: Call) -> int:
        """log [-t TAG] WORD…: a line in the system's log; everybody may write it."""
        words, tag = list(call.words), "log"
        if words[:1] == ["-t"]:
            tag, words = words[1], words[2:]
        self.log = [*self.log[1 - _LOG_LINES :], f"I/{tag:8}({call.pid:5}): {' '.join(words)}"]
        return 0

    async def _logcat(self, call: Call) -> int:
        """logcat -d -s TAG, logcat -c; an app sees only its own lines, so here none."""
        if "-c" in call.words:
            self.log = []
        elif not call.is_app:
            tags = [word.split(":")[0] for word in call.words if not word.startswith("-")]
            tags = [tag for tag in tags if tag not in ("brief",)]
            await call.say("--------- beginning of main\n")
            for line in self.log:
                if not tags or line[2:].split("(")[0].strip() in tags:
                    await call.say(f"{line}\n")
        return 0
