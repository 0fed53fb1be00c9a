"""Many files to one phone, over one session."""

from __future__ import annotations

import asyncio
from pathlib import Path

from loopback_phones import Listen, Loopback


def test_many_files_come_into_one_folder_and_a_missing_one_is_said(
    loopback: Loopback, listen: Listen, tmp_path: Path
) -> None:
    names = [f"{number:02}" for number in range(20)]
    for name in names:
        (tmp_path / name).write_bytes(name.encode() * 999)
    there = tmp_path / "there/part"

    async def scene() -> None:
        async with listen("phone001"), loopback.fleet() as fleet:
            files = [tmp_path / name for name in names]
            copied = await fleet.put_each("phone001", files, str(there), timeout_seconds=60)
            assert copied is None
            missing = [tmp_path / "gone", *files]
            error = await fleet.put_each("phone001", missing, str(there), timeout_seconds=60)
            assert "gone" in str(error)

    asyncio.run(scene())
    assert sorted(path.name for path in there.iterdir()) == names
    assert all((there / name).read_bytes() == name.encode() * 999 for name in names)
