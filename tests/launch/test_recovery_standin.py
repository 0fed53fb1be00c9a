"""Phones that are lost in a run: named, left out, and the training goes on to the same end."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launching import (
    HOME,
    JOB,
    all_launched,
    healed,
    launched,
    left_over,
    lines_of,
    newest,
)

from fleetctl.errors import ExitCode

pytestmark = pytest.mark.standin

LOST = {"kill": "phone002", "hang": "phone003", "unplug": "phone006"}
RUNS = {"kill": "phone[001-002]", "hang": "phone[003-004]", "unplug": "phone[005-006]"}
"""The head phone is lost in one of them."""

LAST = 12 * 30
"""Iterations of the job."""

ROUNDING = 1e-3
"""Between runs of one and of two phones: kernels for a whole batch round otherwise than those for
half of it, and how much that grows depends on the processor. One iteration changes three times
as much."""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Long enough that a fault comes in the middle; short enough that rounding stays small."""
    path = tmp_path_factory.mktemp("job") / "recovered.yml"
    steady = JOB.format(epochs=12).replace("lr: 0.1", "lr: 0.01")
    path.write_text(f"{steady}  deterministic: true\n")
    return str(path)


@pytest.fixture(scope="module")
def ended(rack: Any, job: str) -> Iterator[dict[str, Path]]:
    """Three runs, each of which loses a phone in another way, side by side: most of it is waiting.
    The supervisor of the first is killed with its phone, and another one comes instead."""
    calls = [("--phones", phones, job) for phones in RUNS.values()]
    try:
        with all_launched(rack, *calls) as launches:
            (killed, first), *others = launches
            killed.kill()
            killed.wait()
            for fault, phone in LOST.items():
                rack.fleetctl("standin", "fault", phone, fault)
            again = rack.fleetctl("logs", "-f", first.name, timeout=500)
            assert "this terminal does now" in again.stderr
            codes = [process.wait(timeout=500) for process, _ in others]
            assert codes == [ExitCode.DONE] * len(others)
            yield dict(zip(LOST, (folder for _, folder in launches), strict=True))
    finally:
        rack.fleetctl("standin", "heal")
        healed(rack)


@pytest.mark.parametrize("fault", LOST)
def test_the_run_goes_on_without_the_lost_phone_to_its_end(
    rack: Any, ended: dict[str, Path], fault: str
) -> None:
    folder, phone = ended[fault], LOST[fault]
    (job,) = [job for job in rack.fleetctl_json("jobs")["jobs"] if job["name"] == folder.name]
    assert (job["state"], job["attempts"]) == ("done", 2)
    assert phone not in job["phones"]
    events = lines_of(folder / "events.jsonl")
    (failed,) = [e for e in events if e["kind"] == "attempt-ended" and e["state"] == "failed"]
    assert [*failed["culprits"]] == [phone]
    plan = json.loads((folder / "attempts/2/plan.json").read_text())
    assert sum(plan["samples_per_rank"]) == 48
    begun = lines_of(folder / "attempts/2/progress.jsonl")[0]["iteration"]
    reached = [e["iteration"] for e in lines_of(folder / "progress.jsonl")]
    assert begun >= 5
    assert max(reached) - begun <= 5
    assert left_over(rack, folder.name) == ""


DISTANCE = """
import io, sys, torch
one, other = (
    torch.load(io.BytesIO(open(path, "rb").read().partition(b"\\n")[2]), weights_only=True)["model"]
    for path in sys.argv[1:]
)
print("distance", max(float((one[name] - other[name]).abs().max()) for name in one))
"""
"""Between the parameters of two checkpoints, run on a phone: only those have torch."""


def distance(rack: Any, phone: str, *checkpoints: str) -> float:
    paths = [f"{HOME}/phonerack/runs/{each}.ckpt" for each in checkpoints]
    said = rack.fleetctl("launch", "--phones", phone, "--", "python", "-c", DISTANCE, *paths)
    found = re.search(r"distance (\S+)", said.stdout)
    assert found, said.stdout
    return float(found[1])


@pytest.mark.soak
def test_it_learns_what_an_undisturbed_run_learns(
    rack: Any, ended: dict[str, Path], job: str
) -> None:
    """Up to the order in which the gradients of two phones and of one are summed."""
    recovered = ended["unplug"]
    rack.fleetctl("launch", "--phones", "phone[004-005]", job)
    undisturbed = newest(rack)["name"]
    last = f"checkpoints/iteration-{LAST:08d}"
    apart = distance(rack, "phone005", f"{recovered.name}.2/{last}", f"{undisturbed}/{last}")
    assert apart < ROUNDING
    begun = lines_of(recovered / "attempts/2/progress.jsonl")[0]["iteration"]
    resumed = f"resume/iteration-{begun:08d}"
    assert (
        distance(rack, "phone005", f"{recovered.name}.2/{resumed}", f"{undisturbed}/{last}") > 0.01
    )


@pytest.mark.soak
def test_a_phone_that_becomes_ready_joins_at_a_checkpoint(rack: Any, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.yml"
    wanted.write_text("phones: 3\nminimum: 2\n" + JOB.format(epochs=5000))
    rack.fleetctl("standin", "heal")
    healed(rack)
    rack.fleetctl("drain", "phone[003-006]", "--why", "not yet")
    try:
        with launched(rack, str(wanted)) as (process, folder):
            assert newest(rack)["phones"] == ["phone001", "phone002"]
            rack.fleetctl("undrain", "phone003")
            rack.fleetctl("check", "phone003", check=False)
            while newest(rack)["attempts"] == 1:
                assert process.poll() is None
                time.sleep(1)
            assert newest(rack)["phones"] == ["phone001", "phone002", "phone003"]
            (ended,) = [
                e for e in lines_of(folder / "events.jsonl") if e["kind"] == "attempt-ended"
            ]
            assert (ended["cause"], ended["culprits"]) == ("interrupted", {})
            assert ended["reason"] == "phone003: 1 more phone is ready and taken in"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=120) == ExitCode.INTERRUPTED
    finally:
        rack.fleetctl("undrain", "phone[003-006]")
