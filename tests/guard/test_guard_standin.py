"""guard on a stand-in rack: from the sample above the limit to the cut that its phone proves."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.standin

LIMIT_SECONDS = 10.0
GUARD = """
guard: # the rack's other phones keep their charge
  {poll_seconds: 2, charge_high_percent: 100, call: [sh, -c, 'echo "$0" >>CALLS', "{message}"]}
"""
MARKED = "PHONERACK_RUN=by-hand setsid sleep 600 </dev/null >/dev/null 2>&1 &"


class Watched:
    """The rack while a guard runs. `calls` is a file with one line a call."""

    def __init__(self, rack: Any, calls: Path) -> None:
        self.rack = rack
        self.calls = calls
        self.log = rack.folder / "guard/log"

    def rows(self) -> list[dict[str, Any]]:
        days = sorted(self.log.glob("*.jsonl"))
        return [json.loads(row) for day in days for row in day.read_text().splitlines()]

    def find(self, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first row of guard's log that is so, once there is one."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for row in self.rows():
                if what(row):
                    return row
            time.sleep(0.3)
        pytest.fail("guard did not do it:\n" + "\n".join(map(str, self.rows()[-40:])))

    def crossing(self, phone: str) -> float:
        """When the phone's battery was first read above the limit."""
        row = self.find(
            lambda row: row.get("phone") == phone and row.get("sample", {}).get("celsius", 0) >= 50
        )
        return float(row["sample"]["time"])

    def noted(self, phone: str, text: str) -> float:
        row = self.find(lambda row: row.get("phone") == phone and text in row.get("text", ""))
        return float(row["time"])

    def hot(self, phone: str) -> None:
        self.rack.fleetctl("standin", "hardware", phone, "temperature=53")


@contextmanager
def watched(rack: Any, folder: Path) -> Iterator[Watched]:
    before = rack.file.read_text()
    calls = folder / "calls"
    rack.file.write_text(before + GUARD.replace("CALLS", str(calls)))
    with (folder / "guard.log").open("w") as log:
        process = subprocess.Popen(["fleetctl", "guard"], env=rack.env, stderr=log)
    try:
        here = Watched(rack, calls)
        for phone in ("phone005", "phone006"):
            here.find(lambda row, phone=phone: row.get("phone") == phone and "sample" in row)
        yield here
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(rack.folder / "guard")  # the next one knows of no latch and has its own log
        rack.fleetctl("standin", "hub", "on", "phone[005-006]")
        rack.fleetctl("standin", "heal", "phone[005-006]")
        rack.fleetctl("standin", "hardware", "phone[005-006]", "temperature=26")
        rack.fleetctl("undrain", "phone[005-006]")
        rack.file.write_text(before)
        _cooled(rack)


def _cooled(rack: Any) -> None:
    """Wait until phones say so: what they tell of their batteries may be of a minute ago."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        phones = rack.fleetctl_json("status", "phone[005-006]")["phones"]
        if all((phone["temperature_celsius"] or 99) < 40 for phone in phones):
            return
        time.sleep(1)
    pytest.fail(f"phones are still hot: {phones}")


def test_cut_in_time_proven_by_the_phone_and_latched(provisioned_rack: Any, tmp_path: Path) -> None:
    rack = provisioned_rack
    rack.run("ssh", "-F", str(rack.folder / "ssh_config"), "phone005", MARKED)
    rack.fleetctl("standin", "fault", "phone006", "hub-lies")
    with watched(rack, tmp_path) as here:
        here.hot("phone005")
        cut = here.noted("phone005", "outlet phone005 is off") - here.crossing("phone005")
        assert cut < LIMIT_SECONDS
        killed = here.find(lambda row: row.get("done") == "kill" and row["of"] == "phone005")
        assert killed["ok"]
        look = rack.podman("phone005", "sh", "-c", "grep -l PHONERACK_RUN /proc/*/environ")
        assert look.stdout == ""

        here.hot("phone006")
        called = here.find(lambda row: row.get("do") == "call" and "phone006" in row["phones"])
        assert called["what"] == "power-not-cut"
        assert called["time"] - here.crossing("phone006") < LIMIT_SECONDS
        while "phone006" not in (here.calls.read_text() if here.calls.exists() else ""):
            time.sleep(0.2)

        status = rack.fleetctl("guard", "status", "-o", "json", check=False)
        assert status.returncode == 3
        phones = {phone["name"]: phone for phone in json.loads(status.stdout)["phones"]}
        assert phones["phone005"]["latched"]
        assert phones["phone005"]["plugged"] is False
        assert phones["phone006"]["plugged"] is True
        assert phones["phone001"]["latched"] is None

        rack.fleetctl("standin", "hardware", "phone005", "temperature=26")
        rack.fleetctl("guard", "clear", "phone005", "--why", "cooled down")
        here.noted("phone005", "outlet phone005 is on")
    print(f"from the crossing sample to the verified cut: {cut:.1f} s")


JOB = """\
train:
  model: digits-cnn
  data: digits
  epochs: 5000
  global_batch: 48
  optimizer: {name: sgd, lr: 0.1}
  checkpoint: {every_iterations: 5}
"""


@contextmanager
def training(rack: Any, folder: Path) -> Iterator[Path]:
    """A run on three phones that has a checkpoint here; its folder."""
    rack.fleetctl("data", "add", "digits")
    job = folder / "warm.yml"
    job.write_text(JOB)
    before = set(_runs(rack))
    launch = subprocess.Popen(
        ["fleetctl", "launch", "--phones", "phone[004-006]", str(job)], env=rack.env
    )
    try:
        yield _checkpointed(rack, launch, before)
    finally:
        rack.fleetctl("stop", check=False)
        launch.wait(60)


@pytest.mark.soak
def test_a_run_goes_on_without_the_phone_that_is_cut_off(
    provisioned_rack: Any, tmp_path: Path
) -> None:
    with watched(provisioned_rack, tmp_path) as here, training(here.rack, tmp_path) as run:
        here.hot("phone005")
        here.noted("phone005", "outlet phone005 is off")
        killed = here.find(lambda row: row.get("done") == "kill")
        assert killed["ok"]
        _wait(lambda: len(_attempts(run)) > 1, "the run goes on")
        assert _attempts(run)[1:] == [["phone004", "phone006"]]
        assert not [row for row in here.rows() if row.get("do") == "stop"]


@pytest.mark.soak
def test_a_hot_phone_pauses_and_when_it_stays_hot_its_run_goes_on_without_it(
    provisioned_rack: Any, tmp_path: Path
) -> None:
    rack = provisioned_rack
    rack.fleetctl("standin", "hardware", "--pace", "0")  # it stays as hot as it is
    try:
        with watched(rack, tmp_path) as here, training(rack, tmp_path) as run:
            rack.fleetctl("standin", "hardware", "phone005", "temperature=46")
            drained = here.find(lambda row: row.get("do") == "drain")
            assert drained["phone"] == "phone005"

            def pauses() -> bool:
                changes = [row for row in _events(run) if row["kind"] == "shares"]
                return bool(changes) and changes[-1]["samples"]["phone005"] == 0

            _wait(pauses, "its share pauses")
            assert len(_attempts(run)) == 1, "nothing starts anew for that"
            killed = here.find(lambda row: row.get("do") == "kill")
            assert killed["phone"] == "phone005"
            _wait(lambda: len(_attempts(run)) > 1, "the run goes on")
            assert _attempts(run)[1:] == [["phone004", "phone006"]]
            here.noted("phone005", "outlet phone005 is off: phone005 has 46.0 °C without a job")
            orders = [row["do"] for row in here.rows() if "do" in row]
            assert "stop" not in orders
            phones = json.loads(rack.fleetctl("guard", "status", "-o", "json", check=False).stdout)[
                "phones"
            ]
            assert not [phone for phone in phones if phone["latched"]], "no person is needed"
    finally:
        rack.fleetctl("standin", "hardware", "--pace", "1")


def _wait(what: Callable[[], bool], words: str) -> None:
    until = time.monotonic() + 150
    while not what():
        assert time.monotonic() < until, f"not in time: {words}"
        time.sleep(0.5)


def _runs(rack: Any) -> list[Path]:
    return list((rack.folder / "runs").glob("warm-*"))


def _checkpointed(rack: Any, launch: subprocess.Popen[bytes], before: set[Path]) -> Path:
    """The new run's folder, once it has a checkpoint here."""
    while True:
        assert launch.poll() is None, "the launch ended before its first checkpoint"
        for run in set(_runs(rack)) - before:
            if list(run.glob("checkpoints/*")):
                return run
        time.sleep(0.3)


def _events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]


def _attempts(run: Path) -> list[list[str]]:
    """The phones of each attempt that has started."""
    begun: list[list[str]] = []
    phones: list[str] = []
    for row in _events(run):
        phones = row.get("phones", phones)
        if row["kind"] == "started":
            begun.append(phones)
    return begun


@pytest.mark.soak
def test_a_fan_follows_the_heat_of_its_phone(provisioned_rack: Any, tmp_path: Path) -> None:
    rack = provisioned_rack
    command = '[fleetctl, standin, hardware, "{phone}", "fan={state}"]'
    before = rack.file.read_text()
    rack.file.write_text(
        f"{before}\nfans: {{command: {command}, phones: phone005, limit_seconds: 20}}\n"
    )

    def fan() -> bool:
        (phone,) = rack.fleetctl_json("standin", "hardware", "phone005")["phones"]
        return bool(phone["has_fan"])

    def wait(wanted: bool) -> None:
        until = time.monotonic() + 90
        while fan() is not wanted:
            assert time.monotonic() < until, f"the fan does not go {'on' if wanted else 'off'}"
            time.sleep(1)

    rack.fleetctl("standin", "hardware", "--pace", "0")
    try:
        with watched(rack, tmp_path):
            wait(False)
            rack.fleetctl("standin", "hardware", "phone005", "temperature=38")
            wait(True)
            rack.fleetctl("standin", "hardware", "phone005", "temperature=35")
            time.sleep(20)
            assert fan(), "it rests when its phone has cooled some more"
            rack.fleetctl("standin", "hardware", "phone005", "temperature=30")
            wait(False)
    finally:
        rack.file.write_text(before)
        rack.fleetctl("standin", "hardware", "phone005", "fan=on", "temperature=27", "--pace", "1")
