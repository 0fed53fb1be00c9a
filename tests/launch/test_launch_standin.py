"""Launch on a provisioned stand-in rack: runs, stops and resumptions, all of them real."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from typing import Any

import pytest
from launching import (
    HOME,
    PREFIX,
    healed,
    launched,
    left_over,
    lines_of,
    list_checkpoints,
    newest,
)

from fleetctl.errors import ExitCode

pytestmark = pytest.mark.standin


def test_a_job_trains_and_its_folder_tells_all_of_it(rack: Any, short_job: str) -> None:
    done = rack.fleetctl("launch", "--phones", "phone[001-003]", short_job)
    assert re.search(r"^short-\d+ done, test accuracy", done.stdout, re.M)
    job = newest(rack)
    assert (job["state"], len(job["phones"])) == ("done", 3)
    assert 0 < job["test_accuracy"] <= 1
    assert job["started"] < job["ended"]
    folder = rack.folder / "runs" / job["name"]
    finals = [json.loads(path.read_text()) for path in sorted((folder / "final").iterdir())]
    assert [final["phone"] for final in finals] == job["phones"]
    assert len({final["parameters_sha256"] for final in finals}) == 1
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["phones"] == job["phones"]
    lines = (folder / "progress.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["kind"] == "end"
    assert list_checkpoints(folder)
    assert list(json.loads((folder / "versions.json").read_text())["openmpi"].values()) == [
        "phone[001-003]"
    ]
    assert left_over(rack, job["name"]) == ""
    report = rack.fleetctl_json("report", job["name"])
    assert report["digest"]["iterations"] == json.loads(lines[-1])["iteration"]
    assert (folder / "report.html").stat().st_size > 100_000, "figures are in it"


def test_a_rank_that_fails_fails_the_run_by_name(rack: Any) -> None:
    program = ["sh", "-c", "[ $RANK = 0 ] || exit 9"]
    failed = rack.fleetctl("launch", "--phones", "phone[001-002]", "--", *program, check=False)
    assert failed.returncode == ExitCode.FAILED
    assert "phone002 (rank 1): exit code 9" in newest(rack)["reason"]


def test_a_dry_run_shows_plan_and_line_and_writes_nothing(rack: Any, short_job: str) -> None:
    before = files_of(rack)
    asked = ("launch", "--dry-run", "--phones", "phone[001-002]", short_job)
    shown = rack.fleetctl(*asked).stdout
    _, _, plan = shown.partition("plan:\n")
    assert json.loads(plan)["phones"] == ["phone001", "phone002"]
    assert re.search(r"^0 +phone001 +\S+ +sw1 +24 ", shown, re.M)
    assert "exchange: ring over mpi, one bucket" in shown
    assert "mpirun --hostfile" in shown
    told = rack.fleetctl_json(*asked)["dry_run"]
    assert [rank["samples"] for rank in told["ranks"]] == [24, 24]
    assert told["host_file"].count("slots=1") == 2
    assert files_of(rack) == before


def files_of(rack: Any) -> dict[str, int]:
    """Everything in the rack's folder with its time of change, but for the stand-in's own part;
    SQLite's own helpers come and go."""
    return {
        str(path): path.stat().st_mtime_ns
        for path in rack.folder.rglob("*")
        if path.is_file()
        and not path.name.endswith(("-wal", "-shm"))
        and rack.folder / "standin" not in path.parents
    }


def test_ctrl_c_stops_the_run_and_leaves_no_process(rack: Any, endless_job: str) -> None:
    with launched(rack, endless_job) as (process, folder):
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == ExitCode.INTERRUPTED
        assert left_over(rack, folder.name) == ""
        assert newest(rack)["state"] == "stopped"


@pytest.mark.soak
def test_a_closed_terminal_leaves_the_run_and_its_phones_stay_held(
    rack: Any, endless_job: str
) -> None:
    with launched(rack, "-n", "4", endless_job) as (process, folder):
        process.send_signal(signal.SIGHUP)
        process.wait(timeout=60)
        job = newest(rack)
        assert (job["name"], job["state"], job["supervised"]) == (folder.name, "running", False)
        held = rack.fleetctl("launch", "-n", "3", "--", "true", check=False)
        assert held.returncode == ExitCode.HELD
        assert f"held by run {folder.name}" in held.stderr
        beside = rack.fleetctl("launch", "-n", "2", "--", "true")
        assert beside.returncode == 0
        assert "stopped" in rack.fleetctl("stop", folder.name).stdout
        assert left_over(rack, folder.name) == ""


def test_a_suspect_phone_is_second_choice_and_a_good_preflight_redeems_it(rack: Any) -> None:
    from fleetctl.state import State

    with State(rack.folder / "state.db") as state:
        state.record_health("phone002", "CRITICAL", "hung in a run")
    rack.fleetctl("launch", "-n", "3", "--", "true")
    assert "phone002" not in newest(rack)["phones"]
    rack.fleetctl("launch", "--", "true")
    assert "phone002" in newest(rack)["phones"]


def test_two_launches_at_once_get_different_phones(rack: Any) -> None:
    command = ["fleetctl", "launch", "-n", "3", "--", "sleep", "3"]
    both = [subprocess.Popen(command, env=rack.env, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(timeout=200) for process in both] == [0, 0]
    first, second = rack.fleetctl_json("jobs")["jobs"][:2]
    assert not set(first["phones"]) & set(second["phones"])


def test_a_run_that_ends_with_nobody_there_is_settled_by_the_next_look(
    rack: Any,
) -> None:
    run = rack.fleetctl("launch", "--detach", "-n", "2", "--", "sleep", "1").stdout.strip()
    deadline = time.monotonic() + 120
    while left_over(rack, run):
        assert time.monotonic() < deadline, f"{run} does not end"
        time.sleep(0.5)
    events = (rack.folder / "runs" / run / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in events][-1] == "started"
    assert newest(rack)["state"] == "done"
    assert rack.fleetctl("launch", "-n", "6", "--", "true").returncode == 0


@pytest.mark.soak
def test_a_rank_that_freezes_is_named_though_its_phone_answers(rack: Any, endless_job: str) -> None:
    with launched(rack, "--phones", "phone[001-003]", endless_job) as (process, folder):
        pkill = f"{PREFIX}/bin/pkill"
        frozen = rack.podman("phone002", pkill, "-STOP", "-f", "trainer plan.json")
        assert frozen.returncode == 0
        while "recovering" not in (job := newest(rack))["state"] and job["attempts"] == 1:
            assert process.poll() is None
            time.sleep(1)
        (ended,) = [e for e in lines_of(folder / "events.jsonl") if e["kind"] == "attempt-ended"]
        assert ended["reason"].startswith("phone002 answers, but its rank is stopped")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == ExitCode.INTERRUPTED
        assert left_over(rack, folder.name) == ""
    healed(rack)


@pytest.mark.soak
def test_the_checkpoint_before_a_truncated_one_is_used_and_said(
    rack: Any, endless_job: str
) -> None:
    with launched(rack, "--phones", "phone[001-002]", endless_job) as (process, folder):
        while len(list_checkpoints(folder)) < 2:
            assert process.poll() is None
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=120)
    names = list_checkpoints(folder)
    assert len(names) == 2
    newest_one = f"{HOME}/phonerack/runs/{folder.name}/checkpoints/{names[-1]}"
    (folder / "checkpoints" / names[-1]).unlink()
    for phone in ("phone001", "phone002"):
        rack.podman(phone, f"{PREFIX}/bin/truncate", "-s", "-100", newest_one)
    before = sorted(folder.rglob("*")), (folder / "events.jsonl").read_text()
    shown = rack.fleetctl("launch", "--dry-run", "--resume", folder.name)
    assert (sorted(folder.rglob("*")), (folder / "events.jsonl").read_text()) == before
    assert f"{names[-1]} of phone" in shown.stderr
    assert "truncated" in shown.stderr
    _, _, plan = shown.stdout.partition("plan:\n")
    assert json.loads(plan)["resume"] == f"resume/{names[0]}"


@pytest.mark.soak
def test_a_phone_whose_python_lacks_a_module_is_named_before_anything_starts(rack: Any) -> None:
    find = f"set -- {PREFIX}/lib/python3*/lib-dynload/_multiprocessing*.so; "
    sh = f"{PREFIX}/bin/sh"
    assert rack.podman("phone002", sh, "-c", find + "mv $1 $1.gone").returncode == 0
    try:
        before = sorted(rack.folder.glob("runs/*"))
        refused = rack.fleetctl("launch", "-n", "6", "--", "true", check=False)
        assert refused.returncode == ExitCode.PREFLIGHT_REFUSED
        assert "6 phones wanted, 5 ready" in refused.stderr
        assert re.search(r"phone002: .*cannot import _multiprocessing.*-t termux", refused.stderr)
        assert sorted(rack.folder.glob("runs/*")) == before
    finally:
        gone = find.replace(".so;", ".so.gone;")
        rack.podman("phone002", sh, "-c", gone + "mv $1 ${1%.gone}")
        healed(rack)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-n", "7", "--", "true"], "7 phones wanted, the rack .* has 6"),
        (["--phones", "phone009", "--", "true"], "phone009"),
        (["--resume", "never-1"], "no run 'never-1'"),
        ([], "a job file"),
    ],
)
def test_bad_input_is_said_and_changes_nothing(rack: Any, arguments: list[str], said: str) -> None:
    refused = rack.fleetctl("launch", *arguments, check=False)
    assert refused.returncode == ExitCode.BAD_INPUT
    assert re.search(said, refused.stderr)


def test_a_corrupt_shard_is_named_with_its_cure(rack: Any, short_job: str) -> None:
    shard = rack.folder / "data/digits/train-000.shard"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + b"\xff")
    try:
        refused = rack.fleetctl("launch", short_job, check=False)
        assert refused.returncode == ExitCode.FAILED
        assert "train-000.shard is corrupt" in refused.stderr
        assert "fleetctl data add digits" in refused.stderr
    finally:
        shard.write_bytes(whole)


@pytest.mark.soak
def test_a_shard_that_went_bad_on_a_phone_is_sent_anew(rack: Any, short_job: str) -> None:
    shard = f"{HOME}/phonerack/data/digits/train-000.shard"
    rack.podman("phone002", f"{PREFIX}/bin/truncate", "-s", "-1", shard)
    done = rack.fleetctl("launch", "--phones", "phone[001-002]", short_job)
    assert "data set digits copied to phone002" in done.stderr
    listed = {each["name"]: each for each in rack.fleetctl_json("data", "list")["data"]}
    held = {each["phone"]: each for each in listed["digits"]["phones"]}
    assert held["phone002"]["current"]
    assert held["phone002"]["files"] == held["phone002"]["of_files"] == listed["digits"]["shards"]
