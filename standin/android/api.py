"""The Termux:API app of a stand-in phone: torch, vibration and toasts, as `am broadcast` asks."""

from __future__ import annotations

from collections.abc import Sequence

from standin.android.binder import Call
from standin.android.state import TERMUX_API, AndroidState

RECEIVER = f"{TERMUX_API}/.TermuxApiReceiver"
_KEPT_SIGNALS = 100


async def broadcast(state: AndroidState, call: Call) -> int:
    """am broadcast -n COMPONENT --es api_method METHOD …; others than the app get nothing.

    Without the app nobody ever answers, as on a phone.
    """
    component = _value(call.words, "-n")
    if component != RECEIVER:
        await call.say("Broadcast completed: result=0\n")
        return 0
    if TERMUX_API not in state.apps:
        await call.gone()
        return 1
    method = _value(call.words, "api_method")
    if method == "Torch":
        state.torch = _value(call.words, "enabled") == "true"
        state.signal("torch on" if state.torch else "torch off", _KEPT_SIGNALS)
    elif method == "Vibrate":
        state.signal(f"vibrate {_value(call.words, 'duration_ms')}", _KEPT_SIGNALS)
    elif method == "Toast":
        state.signal(f"toast {_value(call.words, 'text')}", _KEPT_SIGNALS)
    await call.say("Broadcast completed: result=0\n")
    return 0


def _value(words: Sequence[str], name: str) -> str:
    """What stands behind a word; empty where it is missing."""
    place = words.index(name) + 1 if name in words else len(words)
    return words[place] if place < len(words) else ""
