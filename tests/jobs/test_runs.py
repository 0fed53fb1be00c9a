"""The run folder: names, events, state, and the one supervisor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleetctl.jobs import runs
from fleetctl.jobs.copies import whole_lines
from fleetctl.jobs.runs import Supervised
from fleetctl.rack import InputError


def test_numbers_go_on_from_the_highest(tmp_path: Path) -> None:
    names = [runs.create(tmp_path, "digits").name for _ in range(2)]
    (tmp_path / "digits-1").rmdir()
    assert [*names, runs.create(tmp_path, "digits").name] == ["digits-1", "digits-2", "digits-3"]
    assert runs.create(tmp_path, "digits-2").name == "digits-2-1"


def test_the_summary_follows_the_events(tmp_path: Path) -> None:
    run = runs.create(tmp_path, "digits")
    run.record("created", phones=["phone001"], resumed_from="old-1")
    assert run.summary().state == "preparing"
    run.record("started", head="phone001", pid=7)
    summary = run.summary()
    assert (summary.state, summary.over, summary.supervised) == ("running", False, False)
    run.record("ended", state="done", reason=None, test_accuracy=0.99)
    summary = run.summary()
    assert (summary.state, summary.test_accuracy, summary.resumed_from) == ("done", 0.99, "old-1")
    assert summary.started is not None
    assert summary.ended is not None


def test_who_has_less_for_heat_is_what_the_newest_attempt_last_said(tmp_path: Path) -> None:
    run = runs.create(tmp_path, "digits")
    run.record("created", phones=["phone001", "phone002"])
    assert run.summary().heated == {}
    run.record("shares", iteration=3, samples={}, heated={"phone002": [6, 8]}, why={})
    run.record("shares", iteration=9, samples={}, heated={"phone001": [0, 8]}, why={})
    assert run.summary().heated == {"phone001": (0, 8)}
    run.record("attempt", number=2, phones=["phone001"])
    assert run.summary().heated == {}
    run.record("shares", iteration=12, samples={}, heated={"phone001": [0, 8]}, why={})
    run.record("ended", state="done", reason=None, test_accuracy=None)
    assert run.summary().heated == {}


def test_an_event_that_a_crash_cut_off_is_left_out(tmp_path: Path) -> None:
    run = runs.create(tmp_path, "digits")
    run.record("created", phones=["phone001"])
    with run.events_file.open("a") as file:
        file.write('{"time": 1, "kind": "en')
    assert run.summary().state == "preparing"


def test_an_event_that_was_cut_off_takes_no_later_one_with_it(tmp_path: Path) -> None:
    run = runs.create(tmp_path, "digits")
    run.record("created", phones=["phone001"])
    with run.events_file.open("a") as file:
        file.write('{"time": 1, "kind": "checkp')
    run.record("ended", state="stopped")
    assert [event["kind"] for event in run.events()] == ["created", "ended"]


def test_only_one_process_supervises_and_its_end_is_noticed(tmp_path: Path) -> None:
    run = runs.create(tmp_path, "digits")
    run.record("created", phones=["phone001"])
    code = (
        "import pathlib, sys, time; from fleetctl.jobs.runs import RunFolder\n"
        "with RunFolder(pathlib.Path(sys.argv[1])).supervise(): print('in', flush=True); "
        "time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(run.path)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert run.supervisor() == other.pid
        assert run.summary().supervised
        with pytest.raises(Supervised, match=str(other.pid)), run.supervise():
            pass
        other.kill()
        other.wait()
    assert run.supervisor() is None
    with run.supervise():
        assert run.supervisor() == os.getpid()


def test_a_look_at_the_lock_is_in_nobodys_way(tmp_path: Path) -> None:
    """A launch that comes while another process looks must get the lock."""
    run = runs.create(tmp_path, "digits")
    with run.supervise():
        pass
    code = (
        "import pathlib, sys; from fleetctl.jobs.runs import RunFolder\n"
        "run = RunFolder(pathlib.Path(sys.argv[1])); print('in', flush=True)\n"
        "while True: run.supervised"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(run.path)], stdout=subprocess.PIPE
    ) as looker:
        assert looker.stdout is not None
        looker.stdout.readline()
        try:
            for _ in range(2000):
                with run.supervise():
                    pass
        finally:
            looker.kill()


@pytest.mark.parametrize("text", ["", "0", "x"])
def test_a_supervisor_that_has_not_said_its_pid_is_unknown(tmp_path: Path, text: str) -> None:
    run = runs.create(tmp_path, "digits")
    with run.supervise():
        (run.path / "supervisor.lock").write_text(text)
        assert run.supervised
        assert run.supervisor() is None
        with pytest.raises(Supervised, match="another"), run.supervise():
            pass
    assert not run.supervised


def test_a_folder_whose_events_were_cut_off_is_no_run(tmp_path: Path) -> None:
    runs.create(tmp_path, "digits").events_file.touch()
    assert runs.all_runs(tmp_path) == []


def test_runs_are_found_by_name_or_as_the_newest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run yet"):
        runs.find(tmp_path, None)
    for base in ("b", "a"):
        runs.create(tmp_path, base).record("created", phones=[])
    (tmp_path / "no-run").mkdir()
    assert [run.name for run in runs.all_runs(tmp_path)] == ["a-1", "b-1"]
    assert runs.find(tmp_path, None).name == "a-1"
    assert runs.find(tmp_path, "b-1").path == tmp_path / "b-1"
    with pytest.raises(InputError, match="the newest are a-1, b-1"):
        runs.find(tmp_path, "c-1")


def test_a_copy_that_was_cut_off_in_a_line_goes_on_after_the_whole_ones(tmp_path: Path) -> None:
    copy = tmp_path / "log"
    copy.write_text("one\n\ntwo\nthr")
    assert whole_lines(copy) == ["one", "", "two"]
    assert copy.read_text().endswith("thr")
    assert whole_lines(copy, trim=True) == ["one", "", "two"]
    assert copy.read_text() == "one\n\ntwo\n"
