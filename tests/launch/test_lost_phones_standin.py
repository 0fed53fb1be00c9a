"""Phones that are lost in a run: named, the run ends, and a resumed one goes on without them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launching import (
    all_launched,
    endless,
    healed,
    launched,
    list_checkpoints,
)

from fleetctl.errors import ExitCode

pytestmark = pytest.mark.standin

LOST = {"kill": "phone002", "hang": "phone004", "unplug": "phone006"}
RUNS = {"kill": "phone[001-002]", "hang": "phone[003-004]", "unplug": "phone[005-006]"}


@pytest.fixture(scope="module")
def ended(rack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Three runs, each of which has lost a phone in another way, side by side: most of it is
    waiting. The folders of the runs, which have ended by themselves."""
    job = endless(tmp_path_factory.mktemp("endless"))
    calls = [("--phones", phones, job) for phones in RUNS.values()]
    try:
        with all_launched(rack, *calls) as launches:
            for fault, phone in LOST.items():
                rack.fleetctl("standin", "fault", phone, fault)
            codes = [process.wait(timeout=120) for process, _ in launches]
            assert codes == [ExitCode.FAILED] * len(LOST)
            yield dict(zip(LOST, (folder for _, folder in launches), strict=True))
    finally:
        rack.fleetctl("standin", "heal")
        healed(rack)


@pytest.mark.parametrize("fault", LOST)
def test_a_lost_phone_ends_the_run_by_name_and_resume_goes_on_without_it(
    rack: Any, ended: dict[str, Path], fault: str
) -> None:
    folder, phone = ended[fault], LOST[fault]
    (job,) = [job for job in rack.fleetctl_json("jobs")["jobs"] if job["name"] == folder.name]
    assert job["state"] == "failed"
    assert job["reason"].startswith(f"{phone} ")
    assert list_checkpoints(folder)
    with launched(rack, "--resume", folder.name) as (process, resumed):
        process.send_signal(signal.SIGINT)
        process.wait(timeout=120)
    plan = json.loads((resumed / "plan.json").read_text())
    assert phone not in plan["phones"]
    assert sum(plan["samples_per_rank"]) == 48
    first = json.loads((resumed / "progress.jsonl").read_text().splitlines()[0])
    assert first["iteration"] >= 5
