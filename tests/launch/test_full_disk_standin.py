"""The controller's disk is really full: it is said where, nothing is lost, it goes on later."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from launching import endless, launched, newest

from fleetctl.errors import ExitCode

pytestmark = pytest.mark.standin

DISK_BYTES = 96 * 2**20


@pytest.fixture
def rack(provisioned_rack: Any, tmp_path: Path) -> Iterator[Any]:
    """The suite's rack, its controller's folder on a small file system of its own."""
    provisioned_rack.fleetctl("data", "add", "digits")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "full-disk-test", small], check=True
    )
    try:
        folder = provisioned_rack.folder
        shutil.copytree(
            folder,
            small / folder.name,
            ignore=shutil.ignore_patterns("runs", "packages", "standin"),
        )
        yield dataclasses.replace(provisioned_rack, home=small)
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


def fill(rack: Any) -> None:
    with suppress(OSError), (rack.home / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def free(rack: Any) -> None:
    (rack.home / "filler").unlink()


def refused(rack: Any, *arguments: str) -> str:
    done = rack.fleetctl(*arguments, check=False)
    assert done.returncode == ExitCode.FAILED, done.stderr
    assert "Traceback" not in done.stderr
    return str(done.stderr)


def intact(rack: Any) -> bool:
    with sqlite3.connect(rack.folder / "state.db") as database:
        return bool(database.execute("PRAGMA integrity_check").fetchone() == ("ok",))


@pytest.mark.soak
def test_commands_say_what_is_full_and_work_once_there_is_room(rack: Any) -> None:
    rack.fleetctl("drain", "phone006", "--why", "screen broken")
    shutil.rmtree(rack.folder / "data/digits")
    fill(rack)

    for command in (
        ("status",),
        ("drain", "phone005", "--why", "swollen"),
        ("launch", "-n", "2", "--", "true"),
    ):
        said = refused(rack, *command)
        assert f"{rack.folder}/state.db" in said
        assert "its disk is full: free some space" in said
    assert f"{rack.folder}/data/digits: No space left on device" in refused(
        rack, "data", "add", "digits"
    )
    assert list((rack.folder / "data").iterdir()) == []
    assert list(rack.folder.glob("runs/*")) == []

    free(rack)
    assert intact(rack)
    states = {p["name"]: p["state"] for p in rack.fleetctl_json("status")["phones"]}
    assert (states["phone005"] != "drained", states["phone006"]) == (True, "drained")
    rack.fleetctl("data", "add", "digits")
    assert rack.fleetctl("launch", "-n", "2", "--", "true").returncode == 0


@pytest.mark.soak
def test_a_run_outlives_a_disk_that_fills_up_and_is_found_again(rack: Any, tmp_path: Path) -> None:
    with launched(rack, "-n", "2", endless(tmp_path)) as (process, folder):
        fill(rack)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == ExitCode.FAILED
        assert "No space left on device; free some space there and do it again" in output
        assert f"{rack.home}" in output
        assert f"{folder.name} goes on; `fleetctl logs -f {folder.name}` follows it" in output

        free(rack)
        assert intact(rack)
        job = newest(rack)
        assert (job["name"], job["state"], job["supervised"]) == (folder.name, "running", False)
        assert rack.fleetctl("stop").returncode == 0
    for file in ("events.jsonl", "progress.jsonl"):
        lines = (folder / file).read_text().splitlines()
        damaged = [line for line in lines if line and not parses(line)]
        # At most the one line that was being written when the disk was full.
        assert len(damaged) <= 1, damaged
    shown = rack.fleetctl("launch", "--dry-run", "--resume", folder.name).stdout
    _, _, plan = shown.partition("plan:\n")
    assert json.loads(plan)["resume"].startswith("resume/iteration-")


def parses(line: str) -> bool:
    try:
        json.loads(line)
    except json.JSONDecodeError:
        return False
    return True
