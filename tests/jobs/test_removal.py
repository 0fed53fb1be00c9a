"""A data set leaves the phones, unless somebody trains on it."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fleetctl.jobs import onphone
from fleetctl.jobs.jobfile import Job, Optimizer, Train, write_job
from fleetctl.jobs.removal import DataInUse, remove_from_phones, require_unused
from fleetctl.jobs.runs import RunFolder
from fleetctl.remote import Fault, PhoneError, Result
from fleetctl.state import Holding, State


def run_of(folder: Path, name: str, data: str, *kinds: str) -> None:
    run = RunFolder(folder / name)
    run.path.mkdir(parents=True)
    train = Train.model_validate(
        {"model": "digits-cnn", "data": data, "epochs": 1, "global_batch": 8,
         "optimizer": Optimizer(name="sgd", lr=0.1)}
    )  # fmt: skip
    write_job(Job(name="some", train=train), run.job_file)
    for kind in kinds:
        run.record(kind, **({"state": "done"} if kind == "ended" else {"phones": ["phone001"]}))


def test_what_a_run_or_a_queued_job_trains_on_is_in_use(tmp_path: Path) -> None:
    run_of(tmp_path, "over-1", "digits", "created", "ended")
    run_of(tmp_path, "other-1", "flowers", "created")
    require_unused("digits", tmp_path)
    run_of(tmp_path, "waits-1", "digits")
    require_unused("digits", tmp_path)  # nobody queued it: a launch that was killed at once
    with pytest.raises(DataInUse, match=r"in use by waits-1; .*`fleetctl stop waits-1`"):
        require_unused("digits", tmp_path, {"waits-1", "over-1-of-long-ago"})
    run_of(tmp_path, "now-1", "digits", "created")
    with pytest.raises(DataInUse, match="by now-1, waits-1;") as caught:
        require_unused("digits", tmp_path, {"waits-1"})
    assert caught.value.exit_code == 5


def test_only_this_data_set_goes_whole_and_half_staged(tmp_path: Path) -> None:
    version = "0123456789abcdef"
    gone = ["a", f".a.{version}.part", f".a.{version}.old"]
    stays = ["a.b", f".a.b.{version}.part", "b", f".b.{version}.part"]
    for name in (*gone, *stays):
        (tmp_path / name).mkdir()
        (tmp_path / name / "n0.shard").touch()
    command = onphone.remove_data("a").replace(onphone.DATA, str(tmp_path))
    for _ in range(2):  # once more finds nothing to do
        subprocess.run(["sh", "-c", command], check=True)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(stays)
    nowhere = onphone.remove_data("a").replace(onphone.DATA, str(tmp_path / "none"))
    subprocess.run(["sh", "-c", nowhere], check=True)


def test_what_is_gone_is_forgotten_and_what_was_not_reached_is_not(tmp_path: Path) -> None:
    away = PhoneError("phone002", Fault.UNREACHABLE, "phone002 is unreachable: away")
    said = {"phone001": Result(0), "phone002": Result(None, error=away)}
    said["phone003"] = Result(1, "", "rm: input/output error")

    class Phones:
        async def run(self, phones: Any, command: str, **_: Any) -> dict[str, Result]:
            assert list(phones) == list(said)
            assert command == onphone.remove_data("digits")
            return said

    fleet: Any = Phones()
    with State(tmp_path / "state.db") as state:
        state.record_holdings(Holding(p, d, "m", 3, 3, 1.0) for p in said for d in ("digits", "x"))
        failed = asyncio.run(remove_from_phones(fleet, state, "digits", list(said)))
        assert failed["phone002"] == away
        assert "phone003" in str(failed["phone003"])
        held = {(each.phone, each.data) for each in state.holdings()}
    everything = {(phone, data) for phone in said for data in ("digits", "x")}
    assert held == everything - {("phone001", "digits")}
