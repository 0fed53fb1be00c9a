"""Which phones failed in the last command that some phones failed in: the node set `@last-failed`.

A command in which none fails leaves it as it is, so that several commands may be tried on the
same phones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetctl.rack.files import write_atomic

GROUP = "last-failed"


@dataclass(frozen=True, slots=True)
class LastFailed:
    """`command` as it was called; `time` in seconds since the epoch."""

    command: str
    phones: tuple[str, ...]
    time: float


def keep(path: Path, command: str, phones: Sequence[str], now: float | None = None) -> None:
    """Note that `phones` failed in `command`; nothing happens if there are none."""
    if not phones:
        return
    document = {
        "version": 1,
        "command": command,
        "phones": list(phones),
        "time": time.time() if now is None else now,
    }
    write_atomic(path, json.dumps(document) + "\n", mode=0o600)


def read(path: Path) -> LastFailed | None:
    """What was noted last; None if nothing ever was, or if it cannot be read."""
    try:
        document = json.loads(path.read_text())
        return LastFailed(
            str(document["command"]), tuple(map(str, document["phones"])), float(document["time"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
