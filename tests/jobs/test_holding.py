"""Phones that a check or a measurement holds are kept while its process lives, and free then."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from fleetctl.cli import jobs
from fleetctl.cli.common import App
from fleetctl.jobs.holding import held, release_forgotten
from fleetctl.rack import RackPaths
from fleetctl.state import Drained, State

HOLDER = """
import sys
from pathlib import Path
from fleetctl.jobs.holding import held
from fleetctl.state import State

folder = Path(sys.argv[1])
with State(folder / "state.db") as state:
    with held(state, folder / "runs", "check-7", ["phone001", "phone002"], "a burn-in"):
        print("holds", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "state.db") as state:
        yield state


def taken(state: State) -> dict[str, str | None]:
    return {name: facts.run for name, facts in state.phones().items() if facts.run}


def test_jobs_leaves_a_check_its_phones_and_its_death_frees_them(
    tmp_path: Path, state: State
) -> None:
    app = App()
    paths = RackPaths(tmp_path.name, tmp_path.parent)
    app.__dict__ |= {"rack": SimpleNamespace(), "paths": paths, "state": state}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holds\n"

        assert CliRunner().invoke(jobs.command, [], obj=app).exit_code == 0
        assert taken(state) == {"phone001": "check-7", "phone002": "check-7"}

        holder.kill()
    assert CliRunner().invoke(jobs.command, [], obj=app).exit_code == 0
    assert taken(state) == {}
    assert [*(tmp_path / "runs").iterdir()] == []


def test_nothing_is_left_of_a_holder_that_ends_well_or_gets_nothing(
    tmp_path: Path, state: State
) -> None:
    with held(state, tmp_path / "runs", "bench-net-7", ["phone001"], "a measurement"):
        release_forgotten(state, tmp_path / "runs")
        assert taken(state) == {"phone001": "bench-net-7"}
    state.drain(["phone001"], "ada", "battery swollen")
    with (
        pytest.raises(Drained),
        held(state, tmp_path / "runs", "bench-net-8", ["phone001"], "a measurement"),
    ):
        pytest.fail("it got a drained phone")
    assert taken(state) == {}
    assert [*(tmp_path / "runs").iterdir()] == []


def test_the_files_of_a_job_stay_when_its_supervisor_was_killed(
    tmp_path: Path, state: State
) -> None:
    job = tmp_path / "runs" / "digits-1"
    job.mkdir(parents=True)
    (job / "job.yml").write_text("name: digits")
    (job / "supervisor.lock").touch()
    state.allocate("digits-1", ["phone001"])
    release_forgotten(state, tmp_path / "runs")
    assert taken(state) == {}
    assert sorted(path.name for path in job.iterdir()) == ["job.yml", "supervisor.lock"]
