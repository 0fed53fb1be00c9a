"""The main job on both series of Open MPI: the shipped job keeps what it promises."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from fleetctl.errors import ExitCode

pytestmark = pytest.mark.standin

HELLO = (
    "timeout 60 mpirun --hostfile ~/phonerack/hostfile"
    " sh -c 'cat $PREFIX/etc/phonerack/name; sleep 1'"
)
PROMISED_ACCURACY = 0.985


@pytest.fixture(scope="module", params=["5.0", pytest.param("4.1", marks=pytest.mark.soak)])
def series(request: pytest.FixtureRequest, provisioned_rack: Any) -> Iterator[str]:
    provisioned_rack.fleetctl("data", "add", "digits")
    changed = nullcontext() if request.param == "5.0" else provisioned_rack.openmpi(request.param)
    with changed:
        yield request.param


def test_the_shipped_job_reaches_its_accuracy_on_six_phones(
    provisioned_rack: Any, series: str
) -> None:
    provisioned_rack.fleetctl("launch", "-n", "6", "examples/jobs/digits.yml")

    newest = provisioned_rack.fleetctl_json("jobs")["jobs"][0]
    assert newest["state"] == "done"
    assert newest["test_accuracy"] >= PROMISED_ACCURACY
    versions = provisioned_rack.folder / "runs" / newest["name"] / "versions.json"
    assert [version[:3] for version in json.loads(versions.read_text())["openmpi"]] == [series]


def test_a_plain_mpirun_reaches_every_phone(provisioned_rack: Any, series: str) -> None:
    config = str(provisioned_rack.folder / "ssh_config")
    said = provisioned_rack.run("ssh", "-F", config, "phone004", HELLO)

    assert sorted(said.stdout.split()) == [f"phone{number:03}" for number in range(1, 7)]
    assert "deprecated" not in (said.stdout + said.stderr).lower()


def test_mpirun_starts_more_phones_than_ssh_children_at_once(
    provisioned_rack: Any, series: str
) -> None:
    """With 16 children a rack of 18 phones would tell; with 2 one of 6 does."""
    few = "PRTE_MCA_plm_ssh_num_concurrent=2 OMPI_MCA_plm_rsh_num_concurrent=2"
    config = str(provisioned_rack.folder / "ssh_config")
    said = provisioned_rack.run("ssh", "-F", config, "phone001", f"export {few}; {HELLO}")

    assert len(said.stdout.split()) == 6


@pytest.mark.soak
def test_torch_and_mpi_sum_in_one_process_over_four_phones(
    provisioned_rack: Any, series: str
) -> None:
    said = subprocess.run(
        ["fleetctl", "launch", "-n", "4", "--", "python", "allreduce.py"],
        cwd=Path(__file__).parents[1] / "standin",
        env=provisioned_rack.env,
        text=True,
        capture_output=True,
        timeout=120,
    ).stdout

    assert sorted(re.findall(r"phone\d+: (\S+)", said)) == ["10.0"] * 4


@pytest.mark.soak
def test_a_phone_killed_in_training_is_named_and_the_rest_goes_on(
    provisioned_rack: Any, series: str, tmp_path: Path
) -> None:
    rack, job = provisioned_rack, tmp_path / "endless.yml"
    name = f"victim{series[0]}"
    job.write_text(
        "train:\n  model: digits-cnn\n  data: digits\n  epochs: 12\n  global_batch: 96\n"
        "  optimizer: {name: sgd, lr: 0.1, momentum: 0.9}\n  checkpoint: {every_iterations: 20}\n"
    )
    try:
        with subprocess.Popen(
            ["fleetctl", "launch", "-n", "6", "--name", name, str(job)], env=rack.env
        ) as launch:
            runs = rack.folder / "runs"
            await_that(lambda: [*runs.glob(f"{name}-*/checkpoints/*.ckpt")])
            rack.fleetctl("standin", "fault", "phone005", "kill")
            assert launch.wait(timeout=300) == ExitCode.DONE
        job_of_it = rack.fleetctl_json("jobs")["jobs"][0]
        assert (job_of_it["state"], job_of_it["attempts"]) == ("done", 2)
        assert "phone005" not in job_of_it["phones"]
        events = (runs / job_of_it["name"] / "events.jsonl").read_text().splitlines()
        (failed, _) = [e for e in map(json.loads, events) if e["kind"] == "attempt-ended"]
        assert [*failed["culprits"]] == ["phone005"]
    finally:
        rack.fleetctl("standin", "heal", "phone005")
        rack.fleetctl("undrain", "phone005")  # it has failed twice by now, and would rest


def await_that(happens: Callable[[], object], limit_seconds: float = 120) -> None:
    deadline = time.monotonic() + limit_seconds
    while not happens():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.2)
