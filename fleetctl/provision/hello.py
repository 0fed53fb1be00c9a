"""MPI hello over some phones: who speaks, and if somebody is silent, who is to blame."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from fleetctl.rack import Rack
from fleetctl.rack.variables import TERMUX_HOME, TERMUX_PREFIX
from fleetctl.remote import Fleet

PROGRAM = Path(__file__).resolve().parents[2] / "roles/verify/files/hello.py"
"""What role verify runs on the whole rack."""

PAIRS_AT_ONCE = 8


def command(addresses: Sequence[str], limit_seconds: int) -> str:
    """One mpirun over all `addresses`, one rank each."""
    argv = [
        *(f"{TERMUX_PREFIX}/bin/timeout", "--kill-after=5", str(limit_seconds)),
        *(f"{TERMUX_PREFIX}/bin/mpirun", "--host", ",".join(addresses)),
        *("-n", str(len(addresses)), "--map-by", "ppr:1:node"),
        *("-x", f"PYTHONPATH={TERMUX_HOME}/phonerack/current/python"),
        *("python", "-c", PROGRAM.read_text()),
    ]
    return shlex.join(argv)


def spoken(output: str) -> set[str]:
    """Phones that said hello."""
    # Not line by line: mpirun may print warnings of its own into them.
    return set(re.findall(r'\{"phone": "([^"]+)"', output))


async def silent(fleet: Fleet, rack: Rack, names: Sequence[str]) -> dict[str, str]:
    """Phone -> why it is to blame for a hello that failed; nobody if all have said it.

    `names[0]` is believed when it comes to blame: put a phone there that is known to work.
    """
    gate = asyncio.Semaphore(PAIRS_AT_ONCE)

    async def hello(*who: str) -> str | None:
        """None if all of them have spoken, else what was said instead."""
        limit = 60 + 2 * len(who)
        addresses = [rack.phones[name].address for name in who]
        async with gate:
            answer = await fleet.run_on(
                who[0], command(addresses, limit), timeout_seconds=limit + 15
            )
        if answer.error is None and spoken(answer.stdout) >= set(who):
            return None
        return answer.failure(who[0]).removeprefix(f"{who[0]}: ")

    if not names or await hello(*names) is None:
        return {}
    alone = await asyncio.gather(*(hello(name) for name in names))
    blamed = {
        name: f"says no MPI hello even by itself: {why}"
        for name, why in zip(names, alone, strict=True)
        if why is not None
    }
    able = [name for name in names if name not in blamed]
    pairs = await asyncio.gather(*(hello(able[0], name) for name in able[1:]))
    for name, why in zip(able[1:], pairs, strict=True):
        if why is not None:
            blamed[name] = f"says no MPI hello to {able[0]}: {why}"
    if not blamed and len(names) > 1:
        return dict.fromkeys(names[1:], "MPI hello fails over all phones, not over any two")
    return blamed
