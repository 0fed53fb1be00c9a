"""Serve on a provisioned stand-in rack: jobs from the queue, side by side, and what outlives it."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from launching import JOB, left_over, list_checkpoints

pytestmark = pytest.mark.standin


@contextmanager
def served(rack: Any) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        ["fleetctl", "serve", "--metrics", "off"], env=rack.env, text=True, stderr=subprocess.PIPE
    ) as serve:
        try:
            yield serve
        finally:
            serve.terminate()


def await_that(happens: Callable[[], object], limit_seconds: float = 120) -> None:
    deadline = time.monotonic() + limit_seconds
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def queue(rack: Any, *arguments: str) -> str:
    name: str = rack.fleetctl("launch", "--queue", *arguments).stdout.strip()
    return name


def job(rack: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = rack.fleetctl_json("jobs", name)["job"]
    return found


@pytest.fixture
def a_minute(tmp_path: Path) -> str:
    """A run that its time limit ends."""
    path = tmp_path / "limited.yml"
    path.write_text(JOB.format(epochs=5000) + "time_limit: 12s\n")
    return str(path)


def test_queued_jobs_run_side_by_side_outlive_serve_and_end_by_their_time_limit(
    rack: Any, a_minute: str
) -> None:
    with served(rack) as serve:
        limited = queue(rack, "-n", "2", a_minute)
        beside = queue(rack, "-n", "3", "--", "sh", "-c", "sleep 8; echo done on $RANK")
        waits = queue(rack, "-n", "6", "--", "true")
        gone = queue(rack, "-n", "6", "--", "true")
        folders = [rack.folder / "runs" / name for name in (limited, beside)]
        await_that(lambda: all('"started"' in text(folder) for folder in folders))
        assert "is first" in job(rack, gone)["why"]
        rack.fleetctl("stop", gone)
        phones = [set(job(rack, name)["phones"]) for name in (limited, beside)]
        assert [len(each) for each in phones] == [2, 3]
        assert not phones[0] & phones[1]
        serve.send_signal(signal.SIGKILL)
        serve.wait()
    with served(rack):
        await_that(lambda: '"ended"' in text(rack.folder / "runs" / waits))

    ended = job(rack, limited)
    assert (ended["state"], ended["reason"]) == ("stopped", "time limit of 12s")
    assert ended["cost"]["phone_hours"] > 0
    assert list_checkpoints(folders[0])
    assert left_over(rack, limited) == ""
    assert [job(rack, name)["state"] for name in (beside, waits, gone)] == [
        *("done", "done", "stopped")
    ]
    assert len(job(rack, waits)["phones"]) == 6


def text(folder: Path) -> str:
    events = folder / "events.jsonl"
    return events.read_text() if events.exists() else ""
