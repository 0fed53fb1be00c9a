"""`fleetctl plan`: what it answers, what it says where something was not measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fleetctl.bench.profile import PROFILE_FILE
from fleetctl.cli.main import cli
from fleetctl.errors import FleetError
from fleetctl.provision import data
from fleetctl.rack.lock import Locked, write_lock
from trainer.formats import ComputeProfile, Input, LinkProfile, ModelSpec, RackProfile

RACK = "rack: home\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-23]\n"
JOB = """\
train:
  {model: digits-cnn, data: digits, epochs: 10, global_batch: 32, optimizer: {name: sgd, lr: 0.1}}
"""
SHAPE = Input((1, 8, 8), 10)


def computed(phone: str, batch: int) -> ComputeProfile:
    seconds = 0.01 + 0.01 * batch
    return ComputeProfile(
        phone=phone, device="cpu", model=ModelSpec("digits-cnn"), input=SHAPE, batch=batch,
        threads=1, forward_seconds=seconds / 3, backward_seconds=seconds * 2 / 3,
        step_seconds=seconds, gradient_bytes=242_088, time=0.0, run="bench-compute-1",
    )  # fmt: skip


LINKS = tuple(
    LinkProfile(method, alpha, 10e6, 0.01, 4, 0.0, "bench-collectives-1")
    for method, alpha in (("ring", 2e-3), ("mpi-tuned", 3e-3), ("gloo", 4e-3))
)
PROFILE = RackProfile(
    "home",
    links=LINKS,
    compute=tuple(computed(f"phone00{n}", b) for n in (1, 2, 3, 4) for b in (8, 32)),
)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    rack = tmp_path / "rack.yml"
    rack.write_text(RACK)
    monkeypatch.setenv("PHONERACK_RACK", str(rack))
    data.add(data.Wish("digits"), tmp_path / "home/home/data")
    PROFILE.write(tmp_path / "home/home" / PROFILE_FILE)
    file = tmp_path / "job.yml"
    file.write_text(JOB)
    return file


def keep(job: Path, profile: RackProfile) -> None:
    profile.write(job.parent / "home/home" / PROFILE_FILE)


def plan(job: Path, *words: str) -> Any:
    return CliRunner().invoke(cli, ["plan", str(job), *words], standalone_mode=False)


def refused(job: Path, *words: str) -> FleetError:
    error = plan(job, *words).exception
    assert isinstance(error, FleetError)
    return error


def test_each_number_of_phones_has_its_forecast(job: Path) -> None:
    document = json.loads(plan(job, "-o", "json").stdout)
    told = {len(each["phones"]): each for each in document["forecasts"]}
    assert list(told) == [1, 2, 3, 4]
    assert told[1]["iteration_seconds"] == pytest.approx(0.33)
    assert told[4]["compute_seconds"] == pytest.approx(0.09)
    assert told[4]["exchange_seconds"] == pytest.approx(6 * 2e-3 + 1.5 * 242_088 / 10e6)
    assert document["phones"] == told[4]["phones"]
    assert document["iterations_per_epoch"] == 45  # of 1,438 images, 32 each time
    assert document["seconds"] == pytest.approx(450 * told[4]["iteration_seconds"])


def test_programs_can_rely_on_these_keys(job: Path) -> None:
    document = json.loads(plan(job, "-o", "json").stdout)
    assert set(document) >= {
        *("schema", "phones", "iterations_per_epoch", "epochs", "seconds"),
        *("forecasts", "exchanges"),
    }
    assert set(document["forecasts"][0]) >= {
        *("phones", "global_batch", "slowest", "compute_seconds", "exchange_seconds"),
        *("hidden_seconds", "iteration_seconds", "images_per_second", "beyond", "too_large"),
    }
    assert set(document["exchanges"][0]) >= {"exchange", "iteration_seconds"}


def test_a_person_reads_how_many_are_worth_it_and_which_exchange(job: Path) -> None:
    said = plan(job).stdout
    first = said.splitlines()[0]
    assert first.startswith("worth it: 4 phones (phone[001-004]), 138 ms an iteration")
    best = next(line for line in said.splitlines() if "reduce:" in line)
    assert "{reduce: ring, codec: half, bucket_bytes: all}" in best


def test_what_it_advises_is_a_job_file_that_can_be_run(job: Path) -> None:
    ways = json.loads(plan(job, "-o", "json").stdout)["exchanges"]
    methods = {each["exchange"].removeprefix("{reduce: ").partition(",")[0] for each in ways}
    assert methods == {"ring", "mpi", "gloo"}
    for each in ways:
        job.write_text(JOB.replace("}}\n", f"}}, exchange: {each['exchange']}}}\n"))
        again = json.loads(plan(job, "-o", "json").stdout)
        at_4 = next(f for f in again["forecasts"] if len(f["phones"]) == 4)
        assert at_4["iteration_seconds"] == pytest.approx(each["iteration_seconds"])


def test_only_these_phones_are_planned_with(job: Path) -> None:
    document = json.loads(plan(job, "phone[002-003]", "-o", "json").stdout)
    assert [len(each["phones"]) for each in document["forecasts"]] == [1, 2]
    assert document["phones"] == ["phone002", "phone003"]
    job.write_text(f"phones: phone[001-002]\n{JOB}")
    assert json.loads(plan(job, "-o", "json").stdout)["phones"] == ["phone001", "phone002"]


def test_phones_that_were_not_measured_are_left_out_and_named(job: Path) -> None:
    keep(job, replace(PROFILE, compute=PROFILE.compute[:4]))
    done = plan(job, "-o", "json")
    assert len(json.loads(done.stdout)["forecasts"]) == 2
    assert "left out, not measured: phone[003-004]; measure with" in " ".join(done.stderr.split())


def test_what_was_never_measured_is_refused_with_the_command_that_does(job: Path) -> None:
    keep(job, replace(PROFILE, compute=()))
    error = refused(job)
    assert error.exit_code == 2
    assert (
        "fleetctl bench compute NODES --models digits-cnn --image 1x8x8 --classes 10 "
        "--batches 8,16 --threads 1" in str(error)
    )
    keep(job, replace(PROFILE, links=()))
    assert "fleetctl bench collectives" in str(refused(job))
    assert plan(job, "phone001").exit_code == 0


def test_places_without_phones_are_told(job: Path) -> None:
    write_lock(job.parent / "rack.lock.yml", "home", {"phone001": Locked(serial="R58M0001")})
    assert "no phone stands in these places yet" in str(refused(job, "phone002"))
    assert json.loads(plan(job, "-o", "json").stdout)["phones"] == ["phone001"]


def test_a_program_of_ones_own_is_refused(job: Path) -> None:
    job.write_text("command: [python, train.py]\n")
    assert "a program of your own is not measured" in str(refused(job))


def test_nothing_is_written(job: Path) -> None:
    home = job.parent / "home"
    before = {p: p.read_bytes() for p in home.rglob("*") if p.is_file()}
    plan(job)
    assert {p: p.read_bytes() for p in home.rglob("*") if p.is_file()} == before
