"""Of two playbooks that come at once, one gets the lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from fleetctl.provision import playbook_lock
from fleetctl.provision.playbook_lock import Process, drop, take

CROWD = 16


def process_of(pid: int) -> Process:
    status = playbook_lock._status(pid)
    assert status is not None
    return Process(pid, status[1])


@pytest.fixture
def living() -> Iterator[list[Process]]:
    sleepers = [subprocess.Popen(["sleep", "600"]) for _ in range(CROWD)]
    yield [process_of(each.pid) for each in sleepers]
    for each in sleepers:
        each.kill()
        each.wait()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "upgrade.lock"


def test_one_of_a_crowd_gets_it_and_all_others_learn_who(lock: Path, living: list[Process]) -> None:
    gate = Barrier(CROWD)

    def try_it(mine: Process) -> Process | None:
        gate.wait()
        return take(lock, mine)

    with ThreadPoolExecutor(CROWD) as pool:
        answers = list(pool.map(try_it, living))

    assert answers.count(None) == 1
    winner = living[answers.index(None)]
    assert {answer for answer in answers if answer} == {winner}


def test_its_holder_may_take_it_again_and_only_it_drops_it(
    lock: Path, living: list[Process]
) -> None:
    mine, other = living[:2]
    take(lock, mine)

    assert take(lock, mine) is None
    drop(lock, other)
    assert take(lock, other) == mine
    drop(lock, mine)
    assert take(lock, other) is None


def test_who_has_ended_holds_nothing_nor_does_another_of_the_same_pid(
    lock: Path, living: list[Process]
) -> None:
    with subprocess.Popen(["sleep", "600"]) as brief:
        take(lock, process_of(brief.pid))
        brief.kill()
    assert take(lock, living[0]) is None

    lock.write_text(f"{living[0].pid} 1\n")
    assert take(lock, living[1]) is None


def test_a_step_finds_its_own_playbook_also_where_another_playbook_runs_that(
    tmp_path: Path,
) -> None:
    """ansible-playbook > worker > step, below an outer ansible-playbook."""
    program = tmp_path / "ansible-playbook"
    program.write_text(
        "import os, subprocess, sys\n"
        "if sys.argv[1] == 'outer':\n"
        "    inner = [sys.executable, sys.argv[0], 'inner']\n"
        "    sys.exit(subprocess.run(['sh', '-c', '\"$@\"; exit $?', 'sh', *inner]).returncode)\n"
        "print(os.getpid(), flush=True)\n"
        "if os.fork() == 0:\n"
        "    code = 'from fleetctl.provision.playbook_lock import *; print(this_playbook().pid)'\n"
        "    subprocess.run([sys.executable, '-c', code])\n"
        "else:\n"
        "    os.wait()\n"
    )

    said = subprocess.run(
        [sys.executable, program, "outer"], capture_output=True, text=True, check=True
    ).stdout.split()

    assert len(said) == 2
    assert said[0] == said[1]


def test_what_no_playbook_started_is_no_step_of_one() -> None:
    code = "from fleetctl.provision.playbook_lock import *; print(this_playbook())"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout.strip() == "None"
