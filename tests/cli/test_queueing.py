"""`launch` where the rack is served: what a terminal is told of a job from the queue."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fleetctl.cli import launch, logs, stop
from fleetctl.cli.common import App
from fleetctl.errors import ExitCode
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import InputError, RackPaths
from fleetctl.serve.lock import serving
from fleetctl.serve.queue import Queue
from fleetctl.state import State

RACK = """\
rack: paper
network: {cidr: 10.9.0.0/24, medium: ethernet, controller: 10.9.0.1}
phones: [10.9.0.11-14]
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    (tmp_path / "paper.yml").write_text(RACK)
    app = App(str(tmp_path / "paper.yml"))
    with State(app.paths.state_db) as state:
        state.record_contact(dict.fromkeys(app.rack.phones, True))
    return app


def invoke(app: App, *arguments: str) -> Any:
    return CliRunner().invoke(launch.command, arguments, obj=app)


def test_a_job_is_queued_though_nobody_serves_and_that_is_said(app: App) -> None:
    done = invoke(app, "--queue", "-n", "2", "-p", "3", "--time-limit", "90m", "--", "true")

    assert done.exit_code == 0
    assert done.stdout == "true-1\n"
    assert "it waits until `fleetctl serve` runs" in done.stderr
    with Queue(app.paths.queue_db) as queue:
        (entry,) = queue.jobs()
    assert (entry.name, entry.priority, entry.least, entry.limit_seconds) == ("true-1", 3, 2, 5400)


@pytest.mark.parametrize("words", [["true-1"], ["true-1", "-f"], []])
def test_the_logs_of_a_job_that_waits_say_why_it_does(app: App, words: list[str]) -> None:
    invoke(app, "--queue", "-n", "2", "--", "true")
    with pytest.raises(InputError, match=r"true-1 has not begun, so it has said nothing: \w+"):
        CliRunner().invoke(logs.command, words, obj=app, catch_exceptions=False)
    with pytest.raises(InputError, match="no run"):
        CliRunner().invoke(logs.command, ["other-1"], obj=app, catch_exceptions=False)


def test_a_job_that_waits_is_stopped_and_programs_are_told(app: App) -> None:
    invoke(app, "--queue", "-n", "2", "--", "true")
    done = CliRunner().invoke(stop.command, ["true-1", "-o", "json"], obj=app)
    assert done.exit_code == 0
    said = json.loads(done.stdout)
    assert (said["run"], said["state"], said["began"]) == ("true-1", "stopped", False)
    with Queue(app.paths.queue_db) as queue:
        assert not [entry for entry in queue.jobs() if entry.waits]


def test_a_terminal_follows_its_job_to_the_end(app: App) -> None:
    def supervise(paths: RackPaths) -> None:
        """The job gets its phones, says something, and is done."""
        run = RunFolder(paths.runs / "echo-1")
        while not (run.path / "job.yml").exists():
            time.sleep(0.02)
        run.record("created", phones=["phone001", "phone002"])
        run.record("started", head="phone001", pid=1)
        run.log_file.write_text("[1,0]<stdout>: hello\n[1,1]<stdout>: hello\n")
        run.record("ended", state="done", reason=None, test_accuracy=None)

    with serving(app.paths.serve_lock):
        supervisor = threading.Thread(target=supervise, args=(app.paths,))
        supervisor.start()
        done = invoke(app, "-n", "2", "--", "echo", "hello")
        supervisor.join()

    assert done.exit_code == 0
    assert done.stdout.splitlines() == ["phone001: hello", "phone002: hello", "echo-1 done"]
    assert "echo-1 runs on phone[001-002], mpirun on phone001" in done.stderr


def test_a_job_that_somebody_takes_out_ends_for_its_terminal_too(app: App) -> None:
    def take_out(paths: RackPaths) -> None:
        while not paths.queue_db.exists():
            time.sleep(0.02)
        with Queue(paths.queue_db) as queue:
            while queue.get("true-1") is None:
                time.sleep(0.02)
        CliRunner().invoke(stop.command, ["true-1"], obj=app)

    with serving(app.paths.serve_lock):
        other = threading.Thread(target=take_out, args=(app.paths,))
        other.start()
        done = invoke(app, "-n", "4", "--", "true")
        other.join()

    assert done.exit_code == ExitCode.INTERRUPTED
    assert "true-1 stopped" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--time-limit", "soon"], "'soon' is no duration"),
        (["-p", "11"], "--priority 11: give a number from -10 to 10"),
        (["-n", "5"], "5 phones wanted, the rack paper has 4"),
        (["--name", "true-1"], "there is a run true-1 already; the next free name is true-2"),
    ],
)
def test_bad_input_queues_nothing(app: App, options: list[str], said: str) -> None:
    (app.paths.runs / "true-1").mkdir()
    done = invoke(app, "--queue", *options, "--", "true")

    assert done.exit_code != 0
    assert said in str(done.exception)
    assert [path.name for path in app.paths.runs.iterdir()] == ["true-1"]
