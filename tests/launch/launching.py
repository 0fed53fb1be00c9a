"""What the launch tests share: jobs, launches that go on, and looks at phones from outside."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PREFIX = "/data/data/com.termux/files/usr"
HOME = "/data/data/com.termux/files/home"

JOB = """\
train:
  model: digits-cnn
  data: digits
  epochs: {epochs}
  global_batch: 48
  optimizer: {{name: sgd, lr: 0.1, momentum: 0.9}}
  checkpoint: {{every_iterations: 5}}
"""


def endless(folder: Path) -> str:
    """A job file of a run that only a stop or a fault ends."""
    path = folder / "endless.yml"
    path.write_text(JOB.format(epochs=5000))
    return str(path)


type Launch = tuple[subprocess.Popen[str], Path]


@contextmanager
def launched(rack: Any, *arguments: str) -> Iterator[Launch]:
    """A launch that goes on, with a checkpoint on the controller; and its run folder."""
    with all_launched(rack, arguments) as (launch,):
        yield launch


@contextmanager
def all_launched(rack: Any, *calls: Sequence[str]) -> Iterator[list[Launch]]:
    """Several such launches, side by side. A resumed one has a checkpoint from the beginning."""
    processes = [_start(rack, arguments) for arguments in calls]
    try:
        launches = [(process, _run_folder(rack, process)) for process in processes]
        for process, folder in launches:
            while not (list_checkpoints(folder) and _iterates(folder)):
                assert process.poll() is None, "the launch ended before its first checkpoint"
                time.sleep(0.2)
        yield launches
    finally:
        for process in processes:
            process.kill()
        for job in rack.fleetctl_json("jobs")["jobs"]:
            if job["ended"] is None:
                rack.fleetctl("stop", job["name"], check=False)
        for process in processes:
            process.communicate()


def _start(rack: Any, arguments: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["fleetctl", "launch", *arguments],
        env=rack.env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _run_folder(rack: Any, process: subprocess.Popen[str]) -> Path:
    """Where the run is kept whose name a launch tells once it has started."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if found := re.match(r"(\S+) runs on ", line):
            folder: Path = rack.folder / "runs" / found[1]
            return folder
    raise AssertionError(f"the launch ended before its run started:\n{''.join(said)}")


def _iterates(folder: Path) -> bool:
    progress = folder / "progress.jsonl"
    return progress.exists() and '"kind": "iteration"' in progress.read_text()


def list_checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").glob("*.ckpt"))


def newest(rack: Any) -> dict[str, Any]:
    found: dict[str, Any] = rack.fleetctl_json("jobs")["jobs"][0]
    return found


def left_over(rack: Any, run: str) -> str:
    """Processes of a run that are still on any phone, looked at from outside."""
    grep = f"{PREFIX}/bin/grep -lszxF PHONERACK_RUN={run} /proc/[0-9]*/environ"
    phones = [f"phone00{number}" for number in range(1, 7)]
    answers = (rack.podman(phone, f"{PREFIX}/bin/sh", "-c", grep) for phone in phones)
    return "".join(answer.stdout for answer in answers)


def healed(rack: Any) -> None:
    """A launch on all phones is what makes a phone ready again: it passes preflight. Those that
    have failed twice would rest."""
    rack.fleetctl("undrain", "phone[001-006]")
    for _ in range(10):
        if rack.fleetctl("launch", "-n", "6", "--", "true", check=False).returncode == 0:
            return
    raise AssertionError("the healed phone does not pass preflight")


def lines_of(file: Path) -> list[dict[str, Any]]:
    """The documents of a file that has one a line."""
    return [json.loads(line) for line in file.read_text().splitlines()]
