"""What is said of an adb that does not come to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fleetctl.remote.adb import Adb, AdbLost


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda adb: adb.phone("R58M1").shell("true", limit_seconds=0.1), "`adb shell` on R58M1"),
        (lambda adb: adb.run("devices", limit_seconds=0.1), "`adb devices`"),
    ],
)
def test_the_command_and_the_phone_are_named(
    tmp_path: Path, work: Callable[[Adb], Awaitable[Any]], words: str
) -> None:
    program = tmp_path / "adb"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)

    async def hang() -> None:
        await work(Adb(str(program), tmp_path, tmp_path / "socket"))

    with pytest.raises(AdbLost, match=f"^{words} did not finish within 0.1 s"):
        asyncio.run(hang())
