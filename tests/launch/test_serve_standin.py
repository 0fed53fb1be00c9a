"""Serve on a provisioned stand-in rack: jobs from the queue, side by side, and what outlives it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from launching import JOB, left_over, list_checkpoints

from fleetctl.jobs.cost import held
from fleetctl.jobs.runs import RunFolder

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


@pytest.mark.soak
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


@pytest.mark.soak
def test_jobs_go_on_whoever_is_killed_and_no_phone_is_in_two_of_them(
    rack: Any, tmp_path: Path
) -> None:
    """serve and supervisors are killed again and again while a dozen jobs go through."""
    training = tmp_path / "training.yml"
    training.write_text(JOB.format(epochs=6))
    chance = random.Random(6)  # noqa: S311
    names = [queue(rack, "-n", str(chance.randint(1, 6)), str(training)) for _ in range(6)]
    names += [queue(rack, "-n", str(chance.randint(1, 4)), "--", "sleep", "4") for _ in range(6)]
    folders = [rack.folder / "runs" / name for name in names]

    def all_over() -> bool:
        return all('"ended"' in text(folder) for folder in folders)

    while not all_over():
        with served(rack) as serve:
            until = time.monotonic() + chance.uniform(5, 20)
            while time.monotonic() < until and not all_over():
                time.sleep(0.5)
            victims = [pid for folder in folders if (pid := RunFolder(folder).supervisor())]
            for pid in chance.sample(victims, len(victims) // 2):
                os.kill(pid, signal.SIGKILL)
            serve.kill()

    kinds = {name: job(rack, name) for name in names}
    # A command that its supervisor left behind in mid-start is never repeated.
    assert all(found["state"] == "done" for name, found in kinds.items() if "training" in name)
    spans = [span for folder in folders for span in held(RunFolder(folder).events(), time.time())]
    for one, other in combinations(spans, 2):
        if one.phone == other.phone:
            assert one.until <= other.since or other.until <= one.since, (one, other)
    assert all(left_over(rack, name) == "" for name in names)


def text(folder: Path) -> str:
    events = folder / "events.jsonl"
    return events.read_text() if events.exists() else ""
