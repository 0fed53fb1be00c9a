"""Data to stand-in phones: by a broadcast, in parts, and after a phone is lost in the midst."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launching import HOME, PREFIX, healed, left_over, newest
from which_rack import NAME

from fleetctl.errors import ExitCode

pytestmark = pytest.mark.standin

ALL = "phone[001-006]"

JOB = """\
train:
  model: digits-cnn
  data: {data}
  stage: {stage}
  epochs: 1
  global_batch: 1200
  optimizer: {{name: sgd, lr: 0.01}}
"""


def job(folder: Path, data: str, stage: str = "all") -> str:
    path = folder / f"{data}-{stage}.yml"
    path.write_text(JOB.format(data=data, stage=stage))
    return str(path)


def on_phone(rack: Any, phone: str, data: str) -> set[str]:
    """The shards in a data set's place."""
    folder = f"{HOME}/phonerack/data/{data}"
    names = rack.podman(phone, f"{PREFIX}/bin/ls", folder).stdout.split()
    return {name for name in names if name.endswith(".shard")}


@pytest.fixture(scope="module")
def large(rack: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of data set `large`, which is worth a broadcast to six phones."""
    path = tmp_path_factory.mktemp("large") / "large.npz"
    images = np.random.default_rng(0).integers(0, 256, (900_000, 1, 8, 8), np.uint8)
    labels = np.arange(len(images)) % 10
    np.savez(path, x_train=images, y_train=labels, x_test=images[:50], y_test=labels[:50])
    added = rack.fleetctl("data", "add", "large", "--from", str(path), "-o", "json")
    assert 5 * json.loads(added.stdout)["data"]["size_bytes"] > 256 << 20
    return path


def shards(rack: Any, data: str) -> dict[str, int]:
    """File -> bytes, on the controller."""
    folder = rack.folder / "data" / data
    return {path.name: path.stat().st_size for path in folder.glob("*.shard")}


def events(rack: Any, run: str) -> dict[str, Any]:
    lines = (rack.folder / "runs" / run / "events.jsonl").read_text().splitlines()
    return {event["kind"]: event for event in map(json.loads, lines)}


def stopped(rack: Any, *arguments: str) -> dict[str, Any]:
    """How a job's data came to its phones; the job itself is stopped once it runs."""
    run = rack.fleetctl("launch", "--detach", *arguments).stdout.strip()
    rack.fleetctl("stop", run)
    assert left_over(rack, run) == ""
    return {"run": run, **events(rack, run)["staged"]}


@pytest.mark.soak
def test_much_for_many_is_broadcast_and_comes_once(rack: Any, large: Path, tmp_path: Path) -> None:
    phones = [f"phone00{number}" for number in range(1, 7)]
    staged = stopped(rack, "--phones", ALL, job(tmp_path, "large"))
    assert (staged["how"], staged["sent_to"]) == ("broadcast", phones)
    for phone in phones:
        assert on_phone(rack, phone, "large") == set(shards(rack, "large"))
        kept = rack.podman(phone, f"{PREFIX}/bin/ls", "-A", f"{HOME}/phonerack/data").stdout
        assert not [name for name in kept.split() if name.startswith(".")]
        runs = rack.podman(phone, f"{PREFIX}/bin/ls", f"{HOME}/phonerack/runs").stdout
        assert f"{staged['run']}.stage" not in runs.split()
    checked = rack.fleetctl_json("data", "check", "large", "phone[001-006]")
    assert {each["state"] for each in checked["phones"]} == {"all"}


@pytest.mark.soak
def test_phones_that_hold_a_share_each_train_together(rack: Any, tmp_path: Path) -> None:
    images = np.random.default_rng(1).integers(0, 256, (20_000, 1, 8, 8), np.uint8)
    np.savez(tmp_path / "parts.npz", x=images, y=images[:, 0, 0, 0] // 26)
    rack.fleetctl("data", "add", "parts", "--from", str(tmp_path / "parts.npz"))
    rack.fleetctl("launch", "--phones", "phone[001-003]", job(tmp_path, "parts", "share"))
    assert newest(rack)["state"] == "done"
    everything = set(shards(rack, "parts"))
    held = [on_phone(rack, f"phone00{number}", "parts") for number in (1, 2, 3)]
    assert set().union(*held) == everything
    assert max(map(len, held)) < len(everything)
    folder = rack.folder / "runs" / newest(rack)["name"]
    finals = [json.loads(path.read_text()) for path in (folder / "final").iterdir()]
    assert len({final["parameters_sha256"] for final in finals}) == 1
    (shown,) = [d for d in rack.fleetctl_json("data", "list")["data"] if d["name"] == "parts"]
    assert [phone["files"] for phone in shown["phones"]] == [len(files) for files in held]


@pytest.mark.soak
def test_a_phone_that_dies_in_a_broadcast_is_named_and_the_next_attempt_brings_the_rest(
    rack: Any, large: Path, tmp_path: Path
) -> None:
    rack.fleetctl("data", "add", "large", "--from", str(large), "--seed", "1")
    freeze = f"until {PREFIX}/bin/pkill -STOP -f 'trainer[.]stage'; do sleep 0.05; done"
    freezing = subprocess.Popen(
        ["podman", "exec", f"pr-{NAME}-phone004", f"{PREFIX}/bin/sh", "-c", freeze]
    )
    launching = subprocess.Popen(
        ["fleetctl", "launch", "--phones", ALL, job(tmp_path, "large")],
        env=rack.env, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert freezing.wait(timeout=120) == 0
        rack.fleetctl("standin", "fault", "phone004", "kill")
        assert launching.stderr is not None
        said = ""
        for line in launching.stderr:
            said += line
            if "attempt 2 goes on" in line:
                launching.send_signal(signal.SIGINT)
        assert launching.wait(timeout=240) == ExitCode.INTERRUPTED, said
    finally:
        launching.kill()
        rack.fleetctl("standin", "heal")
    assert re.search(r"data set large did not reach all of .*: phone004 ", said), said
    assert left_over(rack, newest(rack)["name"]) == ""
    states = {p["name"]: p["state"] for p in rack.fleetctl_json("status")["phones"]}
    assert states["phone004"] == "suspect"
    # Version 0 is still in its place on those that were broken off.
    assert on_phone(rack, "phone005", "large")
    healed(rack)
    staged = stopped(rack, "--phones", ALL, job(tmp_path, "large"))
    assert 0 < staged["sent_bytes"] <= 6 * sum(shards(rack, "large").values())
    checked = rack.fleetctl_json("data", "check", "large", ALL)
    assert {each["state"] for each in checked["phones"]} == {"all"}
