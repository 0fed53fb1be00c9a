"""What is large is verified in threads: phones are heard meanwhile."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetctl.jobs import checkpoints, runs, staging
from fleetctl.jobs.settle import _collect_checkpoints
from fleetctl.jobs.supervise import Watch, _keep_checkpoints
from fleetctl.remote import Result


class Slow:
    """Work that is through once somebody else was heard."""

    def __init__(self) -> None:
        self.began, self.heard, self.in_time = threading.Event(), threading.Event(), False

    def __call__(self, *_: Any) -> None:
        self.began.set()
        self.in_time = self.heard.wait(10)
        raise Done


class Done(Exception):
    """It has worked."""


@pytest.fixture
def slow() -> Slow:
    return Slow()


async def beside(work: Any, slow: Slow) -> None:
    """Do the work; once its slow part is under way, somebody else is heard."""
    task = asyncio.ensure_future(work)
    while not (slow.began.is_set() or task.done()):
        await asyncio.sleep(0)
    slow.heard.set()
    with pytest.raises(Done):
        await task


def test_old_checkpoints_go_while_the_run_is_followed(
    tmp_path: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch(*_: Any) -> None:
        pass

    monkeypatch.setattr(checkpoints, "fetch", fetch)
    monkeypatch.setattr(checkpoints, "prune", slow)
    fleet: Any = None
    state: Any = None
    watch = Watch(fleet, state, runs.create(tmp_path / "runs", "a"), ("phone001",), {})
    event: Any = SimpleNamespace(path="checkpoints/iteration-10.ckpt", iteration=10)
    watch.tracker.checkpoint = event
    watch.checkpointed.set()
    plan: Any = SimpleNamespace(checkpoint=SimpleNamespace(keep=2))
    asyncio.run(beside(_keep_checkpoints(watch, plan), slow))
    assert slow.in_time


def test_and_while_an_attempt_is_cleared_up(
    tmp_path: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: Any) -> Result:
        return Result(0, "")

    monkeypatch.setattr(checkpoints, "prune", slow)
    fleet: Any = SimpleNamespace(run_on=nothing)
    run = runs.create(tmp_path / "runs", "a")
    asyncio.run(beside(_collect_checkpoints(fleet, run, "phone001", 2), slow))
    assert slow.in_time


def test_a_data_set_is_verified_beside_what_else_goes_on(
    tmp_path: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "read_data", slow)
    room: Any = SimpleNamespace(data=tmp_path)
    plan: Any = SimpleNamespace(data=SimpleNamespace(name="digits"))
    asyncio.run(beside(staging.stage_data(room, plan), slow))
    assert slow.in_time
