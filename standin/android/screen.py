"""The screen of a stand-in phone: what is in front, whether it is locked, where typed text goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from standin.android import api, values
from standin.android.binder import Call, Failed
from standin.android.packages import ACTIVITIES
from standin.android.state import TERMUX
from standin.android.terminal import Terminal

if TYPE_CHECKING:
    from standin.android.handset import Handset

_WAKE_LOCK, _WAKE_UNLOCK = "com.termux.service_wake_lock", "com.termux.service_wake_unlock"
_POWER_KEYS, _WAKE_KEYS = ("26", "KEYCODE_POWER"), ("224", "KEYCODE_WAKEUP")
_MENU_KEYS = ("82", "KEYCODE_MENU")


class Screen:
    def __init__(self, handset: Handset) -> None:
        self._handset = handset
        self._terminal: Terminal | None = None

    def close(self) -> None:
        terminal, self._terminal = self._terminal, None
        if terminal:
            terminal.close()

    @property
    def ready(self) -> bool:
        """Whether Termux takes what is typed, once it is in front."""
        return self._terminal is not None and self._terminal.ready

    async def am(self, call: Call) -> int:
        """am start -n COMPONENT | startservice -a ACTION COMPONENT | force-stop PACKAGE |
        broadcast -n COMPONENT EXTRAS"""
        verb = call.word(0)
        if verb in ("startservice", "start-service", "startforegroundservice"):
            return await self._service(call)
        if verb == "broadcast":
            return await api.broadcast(self._handset.state, call)
        values.shell_only(call)
        if verb in ("start", "start-activity"):
            return await self._start(call)
        if verb == "force-stop":
            return await self._force_stop(call.word(1))
        raise Failed(f"Error: unknown command '{verb}'")

    async def _start(self, call: Call) -> int:
        state = self._handset.state
        component = _after(call.words, "-n") or call.words[-1]
        package, _, activity = component.partition("/")
        if package not in state.apps or package not in ACTIVITIES:
            raise Failed(f"Error type 3\nError: Activity class {{{component}}} does not exist.", 1)
        name = ACTIVITIES[package]
        if activity not in (name, package + name):
            raise Failed(f"Error type 3\nError: Activity class {{{component}}} does not exist.", 1)
        await call.say(f"Starting: Intent {{ cmp={package}/{name} }}\n")
        state.foreground = f"{package}/{name}"
        state.apps[package].opened = True
        if package == TERMUX and (self._terminal is None or self._terminal.ended):
            self.close()
            self._terminal = Terminal(self._handset.phone, state.apps[TERMUX].uid)
        return 0

    async def _service(self, call: Call) -> int:
        """What `termux-wake-lock` asks of its own app; no other app has a service here."""
        state, action = self._handset.state, _after(call.words, "-a")
        if call.is_app and (TERMUX not in state.apps or state.apps[TERMUX].uid != call.uid):
            raise Failed("Error: Requires permission not exported from uid", 1)
        if action == _WAKE_LOCK and "termux:service-wakelock" not in state.wake_locks:
            state.wake_locks.append("termux:service-wakelock")
        elif action == _WAKE_UNLOCK:
            state.wake_locks = []
        await call.say(f"Starting service: Intent {{ act={action} }}\n")
        return 0

    async def _force_stop(self, package: str) -> int:
        state = self._handset.state
        if state.foreground.startswith(f"{package}/"):
            state.foreground = ""
        if package == TERMUX and TERMUX in state.apps:
            self.close()
            state.wake_locks = []
            uid = str(state.apps[TERMUX].uid)
            await self._handset.phone.run(0, ["/system/bin/pkill", "-KILL", "-U", uid])
        return 0

    async def input(self, call: Call) -> int:
        """input text WORDS | keyevent KEY…: to the app in front, unless the screen is locked."""
        values.shell_only(call)
        verb, words = call.word(0), call.words[1:]
        if verb == "text":
            self._type(" ".join(words).replace("%s", " ").encode())
        elif verb == "keyevent":
            for key in words:
                self._press(key)
        elif verb not in ("tap", "swipe"):
            raise Failed(f"Error: Unknown command: {verb}", 1)
        return 0

    def _type(self, text: bytes) -> None:
        if terminal := self._in_front:
            terminal.type(text)

    def _press(self, key: str) -> None:
        state = self._handset.state
        if key in _WAKE_KEYS:
            state.awake = True
        elif key in _POWER_KEYS:
            state.awake = not state.awake
            state.keyguard = state.keyguard or (not state.awake and state.lock_screen != "none")
        elif key in _MENU_KEYS and state.awake and state.lock_screen != "pin":
            state.keyguard = False
        elif terminal := self._in_front:
            terminal.press(key)

    @property
    def _in_front(self) -> Terminal | None:
        """The terminal that keys reach now."""
        state = self._handset.state
        shown = state.awake and not state.keyguard and state.foreground.startswith(f"{TERMUX}/")
        return self._terminal if shown else None

    async def wm(self, call: Call) -> int:
        """wm dismiss-keyguard: away with a lock screen that nothing secures."""
        values.shell_only(call)
        state = self._handset.state
        if call.word(0) != "dismiss-keyguard":
            raise Failed(f"Unknown command: {call.word(0)}")
        if state.awake and state.lock_screen != "pin":
            state.keyguard = False
        return 0


def _after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1] if flag in words[:-1] else ""
