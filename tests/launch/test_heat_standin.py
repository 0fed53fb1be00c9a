"""Heat in the middle of a training: a phone keeps its place with less to do, and gets it back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from launching import JOB, launched, lines_of

pytestmark = [pytest.mark.standin, pytest.mark.soak]

LIMIT_SECONDS = 240.0
HOT = "phone005"


def shares(folder: Path) -> list[dict[str, Any]]:
    return [event for event in lines_of(folder / "events.jsonl") if event["kind"] == "shares"]


def wait_for(what: Callable[[], bool], words: str) -> None:
    until = time.monotonic() + LIMIT_SECONDS
    while not what():
        if time.monotonic() > until:
            pytest.fail(f"within {LIMIT_SECONDS:.0f} s: {words}")
        time.sleep(1)


def test_a_phone_that_grows_hot_keeps_its_place_with_less_to_do_and_gets_it_back(
    rack: Any, tmp_path: Path
) -> None:
    job = tmp_path / "warm.yml"
    # An iteration that computes for much longer than the phone's processor is granted at once.
    wide = JOB.format(epochs=50_000).replace(
        "digits-cnn", "{name: digits-cnn, args: {channels: 64}}"
    )
    job.write_text(wide.replace("global_batch: 48", "global_batch: 192"))

    def heat(celsius: float) -> None:
        rack.fleetctl("standin", "hardware", HOT, f"temperature={celsius}")

    rack.fleetctl("standin", "hardware", "--pace", "0")  # it is as hot as the test says
    try:
        with launched(rack, str(job)) as (_, folder):

            def samples() -> int:
                changes = shares(folder)
                return int(changes[-1]["samples"][HOT]) if changes else 32

            heat(42.5)
            wait_for(lambda: 0 < samples() < 28, "moderate throttling makes its share smaller")
            assert "heat slows it" in shares(folder)[0]["why"][HOT]
            (told,) = [j for j in rack.fleetctl_json("jobs")["jobs"] if j["name"] == folder.name]
            assert told["heated"] == {HOT: [samples(), 32]}
            listed = rack.fleetctl("jobs").stdout
            assert f"slowed for heat: {HOT} {samples()} of 32 samples" in listed
            status = rack.fleetctl("status").stdout
            assert f"{HOT} slowed for heat in {folder.name}: {samples()} of 32 samples" in status

            heat(44)
            wait_for(lambda: samples() == 0, "above the limit it pauses")
            assert f"{HOT} paused for heat" in rack.fleetctl("status").stdout

            heat(27)
            wait_for(lambda: samples() == 32, "cool again it has its whole share")
            assert [event["kind"] for event in lines_of(folder / "events.jsonl")].count(
                "attempt-ended"
            ) == 0
            for change in shares(folder):
                assert sum(change["samples"].values()) == 192
    finally:
        rack.fleetctl("standin", "hardware", "@phones", "temperature=27", "--pace", "1")


def test_a_launch_leaves_out_a_warm_phone_while_there_are_cool_ones(
    rack: Any, short_job: str
) -> None:
    def celsius() -> float:
        (phone,) = rack.fleetctl_json("status", HOT)["phones"]
        return float(phone["temperature_celsius"] or 0)

    rack.fleetctl("standin", "hardware", HOT, "temperature=41", "--pace", "0")
    try:
        wait_for(lambda: celsius() == 41, "its exporter tells")
        told = rack.fleetctl_json("launch", "--dry-run", "-n", "5", short_job)["dry_run"]
        assert HOT not in [rank["phone"] for rank in told["ranks"]]
        assert told["avoided"][HOT] == "its battery has 41 °C"
        shown = rack.fleetctl("launch", "--dry-run", "-n", "5", short_job).stdout
        assert f"left out for its heat: {HOT}: its battery has 41 °C" in shown
        told = rack.fleetctl_json("launch", "--dry-run", "-n", "6", short_job)["dry_run"]
        assert HOT in [rank["phone"] for rank in told["ranks"]], "there are too few cool ones"
    finally:
        rack.fleetctl("standin", "hardware", HOT, "temperature=27", "--pace", "1")
        wait_for(lambda: celsius() < 35, "it is cool again")
