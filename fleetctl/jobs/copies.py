"""Copies of the head phone's growing files, kept up line by line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from fleetctl.remote import Fleet, PhoneError

RECONNECT_PAUSE_SECONDS = 1.0


async def follow(
    fleet: Fleet, phone: str, remote: str, local: Path, on_line: Callable[[str], None]
) -> None:
    """Append to `local` what `remote` has beyond it, for ever; survives lost connections.

    The phone's file only grows, so a copy that an earlier process left is gone on with.
    """
    number = len(whole_lines(local, trim=True))
    with local.open("a") as copy:
        while True:
            # --pid: tail ends with its sshd, so that a closed connection leaves nothing behind.
            command = f"exec tail -n +{number + 1} -F --pid=$PPID {remote} 2>/dev/null"
            try:
                async with aclosing(fleet.stream(phone, command)) as lines:
                    async for line in lines:
                        copy.write(line + "\n")
                        copy.flush()
                        number += 1
                        on_line(line)
            except PhoneError:
                pass
            await asyncio.sleep(RECONNECT_PAUSE_SECONDS)


def whole_lines(local: Path, *, trim: bool = False) -> list[str]:
    """The lines of a copy without one that was cut off; with `trim` the file loses it too."""
    if not local.exists():
        return []
    text = local.read_text(errors="replace")
    whole = text[: text.rfind("\n") + 1]
    if trim and whole != text:
        local.write_text(whole)
    return whole.split("\n")[:-1]
