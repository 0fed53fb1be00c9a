"""Runs the command of an outlet: no shell, a time limit, and what it said is kept."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fleetctl.rack import Outlet

MOST_BYTES = 4096
"""So much of what a command says is kept, from its end."""

LOOK_SECONDS = 0.02
LAST_WORDS_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended. `code` is None if it did not: it could not start, or took too long."""

    code: int | None
    said: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def sentence(self) -> str:
        """What it said last, on one line, with the exit code where that is not 0."""
        last = self.said.strip().splitlines()[-1:] or ["it said nothing"]
        return last[0] if self.code in (0, None) else f"exit code {self.code}: {last[0]}"


@dataclass(frozen=True, slots=True)
class Actuator:
    """Switches outlets. Commands find the `fleetctl` of this very Python, and in PHONERACK_RACK
    the rack file."""

    rack_file: Path | None = None

    async def switch(self, outlet: Outlet, on: bool) -> Ran:
        """Run the outlet's command. What the hub says is no proof: ask the phones."""
        return await run(outlet.argv(on), outlet.limit_seconds, self.environment())

    def environment(self) -> dict[str, str]:
        own = str(Path(sys.executable).parent)
        named = {"PHONERACK_RACK": str(self.rack_file.absolute())} if self.rack_file else {}
        return {**os.environ, "PATH": f"{own}:{os.environ.get('PATH', os.defpath)}", **named}


async def run(argv: Sequence[str], limit_seconds: float, environment: Mapping[str, str]) -> Ran:
    """Run one command to its end or to its limit; its whole process group is dead afterwards."""
    began = time.monotonic()
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as problem:
        return Ran(None, f"{argv[0]} cannot be started: {problem.strerror}", 0.0)
    said = bytearray()
    reading = asyncio.ensure_future(_read(process.stdout, said))
    try:
        async with asyncio.timeout(limit_seconds):
            # Not `wait`, which waits for the end of its output too: what it left in the background
            # may hold that open.
            while process.returncode is None:
                await asyncio.sleep(LOOK_SECONDS)
            await asyncio.wait([reading], timeout=LAST_WORDS_SECONDS)
    except TimeoutError:
        pass  # its code is None then, or what it left holds its output
    finally:
        code = process.returncode
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await asyncio.wait([reading], timeout=LAST_WORDS_SECONDS)
        reading.cancel()
        await asyncio.sleep(0)  # its transport closes itself meanwhile
    text = said.decode(errors="replace")
    if code is None:
        text += f"\n{Path(argv[0]).name} did not end within {limit_seconds:g} s"
    return Ran(code, text, time.monotonic() - began)


async def _read(stdout: asyncio.StreamReader | None, said: bytearray) -> None:
    """Keep the end of what it says, and never let it wait for a reader."""
    while stdout is not None and (part := await stdout.read(65536)):
        said += part
        del said[:-MOST_BYTES]
