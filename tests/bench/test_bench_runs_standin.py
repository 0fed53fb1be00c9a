"""`fleetctl bench` on the stand-in rack: real programs on its phones, by real launches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trainer.formats import RackProfile

if TYPE_CHECKING:
    from conftest import RackUnderTest

pytestmark = [pytest.mark.standin, pytest.mark.timeout(1800)]

PAIR = ("phone001", "phone002")


def bench(rack: RackUnderTest, *arguments: str) -> tuple[dict[str, Any], Path]:
    """The document of a bench, and its folder."""
    done = rack.fleetctl("bench", *arguments, "-o", "json", timeout=1500)
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["problems"] == []
    return document, rack.folder / "runs" / document["run"]


def assert_given_back(rack: RackUnderTest) -> None:
    status = rack.fleetctl_json("status")
    assert "busy" not in {phone["state"] for phone in status["phones"]}


@pytest.mark.soak
def test_collectives_are_timed_fitted_and_reported(provisioned_rack: RackUnderTest) -> None:
    document, folder = bench(
        provisioned_rack,
        *("collectives", *PAIR, "--methods", "ring,mpi", "--sizes", "1k,1M"),
        *("--models", "digits-cnn", "--repeats", "2"),
    )
    ring, mpi = document["launches"]
    assert (ring["method"], mpi["method"]) == ("ring", "mpi")
    assert ring["phones"] == list(PAIR)
    times = {(t["operation"], t["bytes"], t["model"], t["way"]) for t in ring["times"]}
    assert ("all-reduce", 1_000_000, None, None) in times
    ways = {way for _, _, model, way in times if model == "digits-cnn"}
    assert ways == {"packed", "chunk-wise"}
    patterns = {(t["operation"], t["method"]) for t in mpi["times"]}
    assert {("one-to-many", "mpi"), ("many-to-many", "messages")} < patterns
    assert all(
        s > 0 for launch in document["launches"] for t in launch["times"] for s in t["seconds"]
    )
    assert document["goodput_mbits"] > 0
    assert document["provenance"]["versions"]["openmpi"]
    assert (folder / "report.html").read_text().count("<img") >= 3
    profile = RackProfile.read(provisioned_rack.folder / "profile.json")
    assert [(link.method, link.run) for link in profile.links] == [("ring", folder.name)]
    runs = provisioned_rack.fleetctl_json("jobs")["jobs"]
    states = {run["name"]: run["state"] for run in runs}
    assert [states[name] for name in document["provenance"]["runs"]] == ["done", "done"]
    assert_given_back(provisioned_rack)


@pytest.mark.soak
def test_a_method_that_fails_is_told_and_the_others_go_on(provisioned_rack: RackUnderTest) -> None:
    """Too little time for the first launch; the bench is kept all the same, in its own folder."""
    arguments = ("bench", "collectives", *PAIR, "--sizes", "1k", "--repeats", "1")
    before = {path.name for path in (provisioned_rack.folder / "runs").glob("bench-*")}
    done = provisioned_rack.fleetctl(
        *arguments, "--methods", "ring,gloo", "-o", "json", check=False, timeout=1500
    )
    assert done.returncode == 0, done.stderr
    done = provisioned_rack.fleetctl(
        *arguments,
        *("--methods", "gloo"),
        *("--repeats", "1000", "--sizes", "8M", "--limit", "10", "-o", "json"),
        check=False,
        timeout=1500,
    )
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert "--limit" in document["problems"][0]
    assert document["run"] not in before
    assert_given_back(provisioned_rack)


@pytest.mark.soak
def test_compute_is_timed_on_every_phone_and_the_largest_batch_is_found(
    provisioned_rack: RackUnderTest,
) -> None:
    document, folder = bench(
        provisioned_rack,
        *("compute", *PAIR, "--models", "digits-cnn", "--image", "1x8x8", "--classes", "10"),
        *("--batches", "8", "--seconds", "2", "--largest", "--most", "200000", "--memory", "300M"),
    )
    assert [each["phone"] for each in document["phones"]] == list(PAIR)
    for each in document["phones"]:
        (time,) = each["times"]
        assert time["steps"] >= 6
        parts = [time[f"{part}_seconds"] for part in ("forward", "backward", "optimizer")]
        assert all(part > 0 for part in parts)
        assert time["celsius_before"] is not None
        (largest,) = each["largest"]
        assert 0 < largest["batch"] < 200000
        assert 0 < largest["peak_bytes"] <= largest["limit_bytes"] == 300_000_000
    profile = RackProfile.read(provisioned_rack.folder / "profile.json")
    assert {entry.phone for entry in profile.compute} == set(PAIR)
    assert {entry.run for entry in profile.memory} == {folder.name}
    page = provisioned_rack.fleetctl("bench", "report", folder.name).stdout.strip()
    assert "digits-cnn" in Path(page).read_text()
    assert_given_back(provisioned_rack)


@pytest.mark.soak
def test_scaling_says_where_the_time_goes(provisioned_rack: RackUnderTest) -> None:
    document, folder = bench(
        provisioned_rack,
        *("scaling", *PAIR, "--models", "digits-cnn", "--image", "1x8x8", "--iterations", "5"),
        *("--global-batch", "9", "--phone-batch", "4"),
    )
    launches = {(each["mode"], len(each["ranks"])): each for each in document["launches"]}
    assert set(launches) == {("global", 1), ("phone", 1), ("global", 2), ("phone", 2)}
    assert launches["global", 2]["samples_per_rank"] == [5, 4]
    for each in launches.values():
        for rank in each["ranks"]:
            assert len(rank["steps"]) == 5
            assert all(step["compute_seconds"] > 0 for step in rank["steps"])
    assert (folder / "report.html").read_text().count("<img") == 4
    assert_given_back(provisioned_rack)


@pytest.mark.soak
def test_heat_is_told_beside_every_iteration(provisioned_rack: RackUnderTest) -> None:
    document, _ = bench(
        provisioned_rack,
        *("thermal", *PAIR, "--image", "1x8x8", "--phone-batch", "8", "--seconds", "20"),
    )
    first, second = document["ranks"]
    assert [first["phone"], second["phone"]] == list(PAIR)
    assert len(first["steps"]) == len(second["steps"]) > 1, "they stop together"
    assert first["steps"][-1]["time"] - first["steps"][0]["time"] > 5
    assert all(step["celsius"] is not None for step in first["steps"])
    assert_given_back(provisioned_rack)


@pytest.mark.soak
def test_what_was_measured_is_what_a_plan_stands_on(
    provisioned_rack: RackUnderTest, tmp_path: Path
) -> None:
    rack = provisioned_rack
    bench(rack, "collectives", *PAIR, "--methods", "ring", "--sizes", "1k,1M", "--repeats", "2")
    bench(
        rack,
        *("compute", *PAIR, "--models", "digits-cnn", "--image", "1x8x8", "--classes", "10"),
        *("--batches", "8,32", "--seconds", "2"),
    )
    rack.fleetctl("data", "add", "digits")
    job = tmp_path / "job.yml"
    job.write_text(
        "train: {model: digits-cnn, data: digits, epochs: 1, global_batch: 32, "
        "optimizer: {name: sgd, lr: 0.1}}\n"
    )
    told = rack.fleetctl_json("plan", str(job), *PAIR)
    one, two = told["forecasts"]
    profile = RackProfile.read(rack.folder / "profile.json")
    (alone,) = (c for c in profile.compute if c.phone == PAIR[0] and c.batch == 32)
    assert alone.gradient_bytes == 4 * 60_522
    assert one["iteration_seconds"] == pytest.approx(alone.step_seconds)
    assert two["exchange_seconds"] > 0
    assert two["compute_seconds"] < max(
        entry.step_seconds for entry in profile.compute if entry.batch == 32
    )
