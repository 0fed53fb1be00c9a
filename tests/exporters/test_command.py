"""Programs that hang, flood, die or leave children behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from survivors import gone

from exporters import command
from exporters.command import CommandError, output

PROJECT = Path(__file__).resolve().parents[2]


def test_the_output_of_a_good_program() -> None:
    assert output(["echo", "hello"], limit_seconds=30) == b"hello\n"


def test_a_hanging_program_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(CommandError, match="sh: no answer within 1 s"):
        output(["sh", "-c", f"sleep 1000 & echo $$ $! > {pids}; wait"], limit_seconds=1)
    assert all(gone(int(pid)) for pid in pids.read_text().split())


def test_a_child_that_holds_the_output_open_is_killed_too(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(CommandError, match="no answer"):
        output(["sh", "-c", f"sleep 1000 & echo $! > {pid}"], limit_seconds=1)
    assert gone(int(pid.read_text()))


def test_a_program_that_closes_its_output_and_stays_is_killed() -> None:
    with pytest.raises(CommandError, match="no answer"):
        output(["sh", "-c", "exec >&-; sleep 1000"], limit_seconds=1)


def test_a_flood_is_stopped() -> None:
    with pytest.raises(CommandError, match="yes: printed more than 1000 bytes"):
        output(["yes"], limit_seconds=30, max_bytes=1000)


def test_a_failing_program_is_named_with_its_code() -> None:
    with pytest.raises(CommandError, match="ended with 7"):
        output(["sh", "-c", "exit 7"], limit_seconds=30)


def test_a_missing_and_a_forbidden_program_are_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="nowhere: No such file"):
        output([str(tmp_path / "nowhere")], limit_seconds=30)
    (tmp_path / "plain").write_text("")
    with pytest.raises(CommandError, match="plain: Permission denied"):
        output([str(tmp_path / "plain")], limit_seconds=30)


def test_nothing_stays_open_or_registered() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        output(["true"], limit_seconds=30)
        with pytest.raises(CommandError):
            output(["false"], limit_seconds=30)
        with pytest.raises(CommandError):
            output(["sleep", "1000"], limit_seconds=0.1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert not command._groups


def test_a_program_that_is_being_started_while_the_process_ends_ends_too(tmp_path: Path) -> None:
    """In a process of its own: after `end_all` nothing can be started."""
    pid = tmp_path / "pid"
    script = f"""
import subprocess, threading
from exporters import command
begun, at_the_end = threading.Event(), threading.Event()
real = subprocess.Popen
def slow(*arguments, **options):
    process = real(*arguments, **options)
    begun.set()
    at_the_end.wait(0.5)
    return process
subprocess.Popen = slow
program = ["sh", "-c", "echo $$ > {pid}; exec sleep 1000"]
threading.Thread(target=command.output, args=[program], kwargs={{"limit_seconds": 60}}).start()
begun.wait()
while not open("{pid}", "a+").tell():
    pass
command.end_all()
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=PROJECT, capture_output=True)
    assert b"sh: ended with -9" in ended.stderr
    assert gone(int(pid.read_text()))
