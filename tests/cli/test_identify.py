"""`identify`: whatever ends it, the torch is off in the end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from loopback_phones import Listen, Loopback, listen, loopback

from fleetctl.cli import identify
from fleetctl.remote.execute import Execution

__all__ = ["listen", "loopback"]

TORCH = """\
#!/bin/sh
[ "$1" = on ] || while [ -e "/proc/$CALLER/exe" ]; do sleep 0.1; done
echo "$1" >>"{said}"
"""
"""Switching off takes longer than what called it lives."""


@pytest.mark.usefixtures("loopback")
def test_a_slow_torch_is_switched_off_when_it_is_interrupted(
    loopback: Loopback, listen: Listen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Termux:API may need longer for a call than a command that is ended has."""
    said, torch = tmp_path / "said", tmp_path / "termux-torch"
    torch.write_text(TORCH.format(said=said))
    torch.chmod(0o755)
    monkeypatch.setattr(identify, "LIMIT_OF_CALL_SECONDS", 60)
    line = identify.shell_line("phone001", "torch", 600)

    def calls() -> list[str]:
        return said.read_text().split() if said.exists() else []

    async def until(last: str) -> None:
        async with asyncio.timeout(60):
            while calls()[-1:] != [last]:
                await asyncio.sleep(0.02)

    async def play() -> None:
        async with listen("phone001"), loopback.fleet() as fleet:
            command = f'PATH="{tmp_path}:$PATH"; export CALLER=$$; {line}'
            execution = Execution(fleet, command)
            work = asyncio.create_task(execution.run(["phone001"]))
            await until("on")
            execution.stop()
            await work
            await until("off")

    asyncio.run(play())
