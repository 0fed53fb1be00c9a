"""The shell that runs on phones, run by this machine's own sh in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetctl.jobs import onphone
from fleetctl.jobs.probes import read_look
from trainer.formats import Final, Progress, progress_name
from trainer.report import Reporter

RUN = "digits-1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run folder of a phone whose programs are this machine's."""
    monkeypatch.setattr("fleetctl.jobs.onphone.RUNS", str(tmp_path))
    monkeypatch.setattr("fleetctl.jobs.onphone.SHELL", "/bin/sh")
    monkeypatch.setattr("fleetctl.jobs.onphone.PYTHON", sys.executable)
    folder = tmp_path / RUN
    folder.mkdir()
    return folder


@pytest.fixture
def stubborn() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the run that ignores TERM."""
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); "
    with subprocess.Popen(
        [sys.executable, "-c", program + "time.sleep(60)"],
        env={**os.environ, "PHONERACK_RUN": RUN},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def sh(command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command],
        env={**os.environ, **variables},
        text=True,
        capture_output=True,
        timeout=60,
    )


def a_program(folder: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    """An `mpirun` that says so of its version, first in the path, and executes its arguments."""
    program = folder.parent / "bin" / "mpirun"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{says}" && exit\nexec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_the_start_outlives_its_session_and_leaves_pid_and_exit_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_program(folder, monkeypatch, "mpirun (Open MPI) 5.0.11")
    mpirun = ["mpirun", "sh", "-c", "echo $PHONERACK_RUN 'it''s' $MASTER_PORT; sleep 1; exit 7"]
    (folder / "start.sh").write_text(onphone.start_script(RUN, mpirun, "5.0", "127.0.0.1"))
    started = sh(onphone.start_command(RUN))
    assert started.stdout.strip().isdigit(), started
    assert sh(onphone.is_alive(RUN)).stdout == "running\n"
    assert sh(onphone.wait_for_end(RUN)).stdout == "7\n"
    assert sh(onphone.is_alive(RUN)).stdout == "7\n"
    said = (folder / "mpirun.log").read_text().split()
    assert said[:2] == ["digits-1", "its"]
    assert 20000 <= int(said[2]) < 30000


@pytest.mark.parametrize("other", ["HYDRA build details: 4.2", "mpirun (Open MPI) 4.1.8"])
def test_another_mpi_s_mpirun_starts_nothing_and_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    a_program(folder, monkeypatch, other)
    mpirun = ["mpirun", "touch", "started"]
    (folder / "start.sh").write_text(onphone.start_script(RUN, mpirun, "5.0", "127.0.0.1"))
    sh(onphone.start_command(RUN))
    assert sh(onphone.wait_for_end(RUN)).stdout == "1\n"
    assert (folder / "mpirun.log").read_text() == (
        f"{folder.parent}/bin/mpirun is not that of Open MPI 5.0, but of {other}; "
        "remove the other MPI, then site.yml -t openmpi\n"
    )
    assert not (folder / "started").exists()


def test_the_shell_that_starts_mpirun_is_swept_too(folder: Path) -> None:
    (folder / "start.sh").write_text("echo $$ >mpirun.pid\nsleep 60\n")
    sh(onphone.start_command(RUN))
    assert sh(onphone.is_alive(RUN)).stdout == "running\n"
    assert sh(onphone.sweep(RUN)).stdout == ""
    assert sh(onphone.is_alive(RUN)).stdout == "vanished\n"


def test_an_mpirun_that_is_gone_without_a_word_has_vanished(folder: Path) -> None:
    assert sh(onphone.is_alive("never-started-1")).stdout == "vanished\n"
    (folder / "mpirun.pid").write_text(f"{os.getpid()}\n")  # alive, but of no run
    assert sh(onphone.is_alive(RUN)).stdout == "vanished\n"
    assert sh(onphone.wait_for_end(RUN)).stdout == "vanished\n"


def test_an_mpirun_that_ignores_term_is_killed(
    folder: Path, stubborn: subprocess.Popen[bytes]
) -> None:
    (folder / "mpirun.pid").write_text(f"{stubborn.pid}\n")
    sh(onphone.end_mpirun(RUN))
    assert stubborn.wait(timeout=5) == -9


def test_the_sweep_ends_this_runs_processes_and_no_other(
    folder: Path, stubborn: subprocess.Popen[bytes]
) -> None:
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, "PHONERACK_RUN": RUN + "1"})
    try:
        assert sh(onphone.sweep(RUN)).stdout == ""
        assert stubborn.wait(timeout=5) == -9
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_look_shows_processes_and_progress(
    folder: Path, stubborn: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = Progress("digits-1", 1, "phone002", 0.0, 7, 9, 0, 0.1, None, 0.1, 0.1, 0.1, 48)
    deadline = time.monotonic() + 10
    while "S" not in (said := sh(onphone.look_at_rank(RUN)).stdout).splitlines()[0]:
        assert time.monotonic() < deadline, said
    look = read_look(said)
    assert (look.states >= {"S"}, look.iteration, look.ready) == (True, None, False)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    plan: Any = SimpleNamespace(phones=("phone001", "phone002"))
    Reporter(folder, plan).ready()
    assert read_look(sh(onphone.look_at_rank(RUN)).stdout).ready
    progress.write(folder / progress_name(1))
    assert read_look(sh(onphone.look_at_rank(RUN)).stdout).iteration == 7


def rank_script(folder: Path, *, told: bool) -> None:
    script = onphone.rank_script(
        RUN, ["phone001", "phone002"], ["10.0.0.1", "10.0.0.2"], ["eth0", "eth1"], told=told
    )
    (folder / "rank.sh").write_text(script)


STARTED = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "MASTER_PORT": "20007"}
SHOW = "echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $MASTER_PORT $GLOO_SOCKET_IFNAME"


@pytest.mark.parametrize(("code", "status"), [(0, "done"), (3, "failed")])
def test_a_rank_of_a_plain_command_gets_its_variables_and_leaves_its_word(
    folder: Path, code: int, status: str
) -> None:
    rank_script(folder, told=False)
    done = sh(f"cd {folder} && sh rank.sh sh -c '{SHOW}; exit {code}'", **STARTED)
    assert done.stdout == "1 2 0 10.0.0.1 20007 eth1\n"
    assert done.returncode == code
    final = Final.from_json(sh(onphone.read_finals(RUN)).stdout)
    assert (final.run, final.rank, final.phone, final.status) == (RUN, 1, "phone002", status)
    assert final.reason == (None if code == 0 else "exit code 3")
    assert json.loads((folder / "rank-1.final.json").read_text())["version"] == 1


def test_a_program_that_has_left_its_word_keeps_it(folder: Path) -> None:
    rank_script(folder, told=False)
    sh(f"cd {folder} && sh rank.sh sh -c 'echo mine >rank-1.final.json; exit 3'", **STARTED)
    assert sh(onphone.read_finals(RUN)).stdout == "mine\n"


def test_a_rank_that_knows_us_gets_the_same_variables_and_speaks_for_itself(folder: Path) -> None:
    rank_script(folder, told=True)
    done = sh(f"cd {folder} && sh rank.sh sh -c '{SHOW}'", **STARTED)
    assert done.stdout == "1 2 0 10.0.0.1 20007 eth1\n"
    assert sh(onphone.read_finals(RUN)).stdout == ""


@pytest.mark.parametrize(("asked", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "4"}, "4")])
def test_openblas_has_one_thread_unless_the_rank_is_told_otherwise(
    folder: Path, asked: dict[str, str], threads: str
) -> None:
    rank_script(folder, told=True)
    done = sh(f"cd {folder} && sh rank.sh sh -c 'echo $OPENBLAS_NUM_THREADS'", **STARTED, **asked)
    assert done.stdout == f"{threads}\n"


@pytest.mark.parametrize(
    "started",
    [
        {"PMI_RANK": "1", "PMI_SIZE": "2"},
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
    ],
)
def test_a_rank_of_another_mpi_s_mpirun_does_not_begin(folder: Path, started) -> None:
    rank_script(folder, told=True)
    done = sh(f"cd {folder} && sh rank.sh touch begun", **started)
    assert done.returncode == 1
    assert "was not started by Open MPI's mpirun as one of 2" in done.stderr
    assert not (folder / "begun").exists()
