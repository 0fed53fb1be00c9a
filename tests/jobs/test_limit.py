"""A time limit: the run is asked to end with a checkpoint, and stopped when it does not."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetctl.jobs import limit, onphone, runs
from fleetctl.jobs.jobfile import Job, write_job
from fleetctl.jobs.lines import append_line
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.verdict import Evidence, judge
from trainer.formats import Final


def a_run(folder: Path, time_limit: float | None, began: float) -> RunFolder:
    run = runs.create(folder / "runs", "digits")
    write_job(Job(name="digits", command=["true"], time_limit=time_limit), run.job_file)
    run.record("created", phones=["phone001", "phone002"])
    text = run.events_file.read_text()
    run.events_file.write_text(text.replace(text.split(",")[0], f'{{"time": {began}'))
    return run


def test_it_counts_from_when_the_run_got_its_phones(tmp_path: Path) -> None:
    assert limit.ends_at(a_run(tmp_path, 60.0, began=1000.0)) == 1060.0
    assert limit.ends_at(a_run(tmp_path, None, began=1000.0)) is None


def test_time_that_a_run_waits_in_the_queue_again_does_not_count(tmp_path: Path) -> None:
    run = a_run(tmp_path, 60.0, began=1000.0)

    def add(moment: float, kind: str) -> None:
        append_line(run.events_file, json.dumps({"time": moment, "kind": kind}))

    add(1020.0, "requeued")
    assert limit.ends_at(run) is None
    add(5020.0, "given")
    assert limit.ends_at(run) == 5060.0
    add(5030.0, "requeued")
    add(9030.0, "given")
    assert limit.ends_at(run) == 9060.0


def test_that_it_has_phones_again_is_noted_once(tmp_path: Path) -> None:
    run = a_run(tmp_path, 60.0, began=time.time())
    limit.note_given(run)
    run.record("requeued", reason="2 wanted, 1 ready")
    for _ in range(2):  # as would the supervisor after one that was killed
        limit.note_given(run)

    assert [event["kind"] for event in run.events()] == ["created", "requeued", "given"]


def test_a_job_file_that_somebody_damaged_is_no_limit(tmp_path: Path) -> None:
    run = a_run(tmp_path, 60.0, began=1000.0)
    run.job_file.write_text("train: [")
    assert limit.ends_at(run) is None


@pytest.fixture
def enforced(monkeypatch: pytest.MonkeyPatch) -> Callable[[RunFolder], list[tuple[Any, str]]]:
    """Supervises a run for as long as its limit and its patience last; what phones were told."""
    monkeypatch.setattr(limit, "FINISH_SECONDS", 0.05)

    def supervise(run: RunFolder) -> list[tuple[Any, str]]:
        asked: list[tuple[Any, str]] = []

        async def tell(phones: Any, command: str, **_: Any) -> None:
            asked.append((phones, command))

        room: Any = SimpleNamespace(fleet=SimpleNamespace(run=tell), remark=lambda _: None)

        async def supervised() -> None:
            stop = asyncio.Event()
            async with limit.enforced(room, run, stop):
                await asyncio.wait_for(stop.wait(), timeout=10)

        asyncio.run(supervised())
        return asked

    return supervise


def test_a_training_run_is_asked_first_on_all_phones(tmp_path: Path, enforced: Any) -> None:
    run = a_run(tmp_path, 60.0, began=time.time() - 60)
    run.plan_file.write_text(PLAN)

    assert enforced(run) == [(("phone001", "phone002"), onphone.ask_to_finish("digits-1"))]
    assert run.stop_requested
    assert run.stop_reason == "time limit of 1m"


def test_a_command_is_stopped_at_once(tmp_path: Path, enforced: Any) -> None:
    run = a_run(tmp_path, 90.0, began=time.time() - 90)

    assert enforced(run) == []
    assert run.stop_reason == "time limit of 1m30s"


PLAN = """{"run": "digits-1", "phones": ["phone001"], "samples_per_rank": [8],
"model": {"name": "digits-cnn"}, "data": {"name": "digits", "path": "digits"}, "epochs": 1,
"optimizer": {"name": "SGD", "args": {"lr": 0.1}}}"""


def test_a_run_whose_ranks_all_ended_early_is_stopped_for_the_reason_that_was_told() -> None:
    finals = {
        rank: Final("digits-1", rank, f"phone00{rank}", "stopped", "as asked", 40, None, "a" * 64)
        for rank in range(2)
    }
    evidence = Evidence(
        phones=["phone000", "phone001"],
        addresses={},
        finals=finals,
        unreachable={},
        blamed={},
        unswept={},
        mpirun_code=0,
        log="",
        stopped=False,
        stop_reason="time limit of 2h",
    )

    verdict = judge(evidence)

    assert (verdict.state, verdict.reason) == ("stopped", "time limit of 2h")
