"""Checkpoints are verified, and the newest valid one wins wherever it lies."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
from loopback_phones import Listen, Loopback

from fleetctl.jobs import checkpoints, runs
from fleetctl.jobs.runs import RunFolder
from trainer.formats import CheckpointHeader, FormatError, ModelSpec

PAYLOAD = b"\x80payload\n" * 1000


def write(folder: Path, iteration: int, payload: bytes = PAYLOAD) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    header = CheckpointHeader(
        run="digits-1",
        phone="phone001",
        time=1.0,
        model=ModelSpec("digits-cnn"),
        layout_sha256="ab",
        iteration=iteration,
        epoch=1,
        payload_bytes=len(PAYLOAD),
        payload_sha256=hashlib.sha256(PAYLOAD).hexdigest(),
    )
    path = folder / f"iteration-{iteration:08}.ckpt"
    path.write_bytes(header.to_json().encode() + b"\n" + payload)
    return path


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = runs.create(tmp_path / "runs", "digits")
    run.record("created", phones=["phone001", "phone002"])
    return run


def test_a_whole_checkpoint_is_valid(tmp_path: Path) -> None:
    assert checkpoints.verify(write(tmp_path, 30)).iteration == 30


@pytest.mark.parametrize(
    ("payload", "word"), [(PAYLOAD[:-1], "truncated"), (PAYLOAD[:-1] + b"x", "corrupt")]
)
def test_a_damaged_one_is_refused_by_name(tmp_path: Path, payload: bytes, word: str) -> None:
    path = write(tmp_path, 30, payload)
    with pytest.raises(FormatError, match=f"{path.name}.*{word}"):
        checkpoints.verify(path)


def test_only_valid_ones_count_and_the_oldest_go(run: RunFolder) -> None:
    for iteration in (10, 20, 30):
        write(run.checkpoints, iteration)
    write(run.checkpoints, 40, b"half")
    assert [found.header.iteration for found in checkpoints.kept(run)] == [30, 20, 10]
    checkpoints.prune(run, keep=2)
    assert [found.header.iteration for found in checkpoints.kept(run)] == [30, 20]


def newest(loopback: Loopback, listen: Listen, run: RunFolder) -> Any:
    async def scene() -> Any:
        async with listen("phone001", "phone002"), loopback.fleet() as fleet:
            return await checkpoints.newest(fleet, run, ["phone001", "phone002"])

    return asyncio.run(scene())


@pytest.fixture
def on_phones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where both loopback phones, which share a file system, keep the run."""
    monkeypatch.setattr("fleetctl.jobs.onphone.RUNS", str(tmp_path / "phone"))
    return tmp_path / "phone/digits-1/checkpoints"


def test_a_phones_newer_checkpoint_beats_the_controllers(
    loopback: Loopback, listen: Listen, run: RunFolder, on_phones: Path
) -> None:
    write(run.checkpoints, 20)
    write(on_phones, 30)
    found = newest(loopback, listen, run)
    assert (found.header.iteration, found.path.parent) == (30, run.checkpoints)


def test_when_the_newest_is_damaged_the_one_before_is_used_and_said(
    loopback: Loopback, listen: Listen, run: RunFolder, on_phones: Path
) -> None:
    write(on_phones, 20)
    write(on_phones, 30, PAYLOAD[:100])
    assert newest(loopback, listen, run).header.iteration == 20
    refused = [event for event in run.events() if event["kind"] == "checkpoint-refused"]
    assert "truncated" in refused[0]["reason"]
    assert [path.name for path in run.checkpoints.iterdir()] == ["iteration-00000020.ckpt"]


def test_without_any_the_run_cannot_be_resumed(
    loopback: Loopback, listen: Listen, run: RunFolder, on_phones: Path
) -> None:
    with pytest.raises(checkpoints.NoCheckpoint, match="digits-1 has no valid checkpoint"):
        newest(loopback, listen, run)


def test_one_that_went_bad_here_is_fetched_anew_and_later_attempts_count(
    loopback: Loopback, listen: Listen, run: RunFolder, on_phones: Path
) -> None:
    write(run.checkpoints, 30, PAYLOAD[:-1])
    write(on_phones, 20)
    write(on_phones.parents[1] / "digits-1.2/checkpoints", 30)
    write(on_phones.parents[1] / "digits-10.2/checkpoints", 40)
    found = newest(loopback, listen, run)
    assert found.header.iteration == 30
    assert checkpoints.verify(run.checkpoints / found.path.name)
    (refused,) = [event for event in run.events() if event["kind"] == "checkpoint-refused"]
    assert (refused["phone"], "corrupt" in refused["reason"]) == ("the controller", False)
