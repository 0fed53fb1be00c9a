"""termux_service against a small imitation of runit that logs what it is told."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from termux_prefix import ModuleFailure, Prefix

# State lies in supervise/state; the file supervise/ok means that a supervisor looks after it.
SV = """\
for path; do :; done
verb=status
for word; do case $word in status|up|down|restart|hup) verb=$word;; esac; done
if ! test -e "$path/supervise/ok"; then
    echo "fail: $path: unable to open supervise/ok: file does not exist"; exit 1
fi
state=$(cat "$path/supervise/state")
if [ $verb = status ]; then echo "$state: $path: 3s$(cat "$path/supervise/extra" 2>&-)"; exit; fi
echo $verb >>"$PREFIX/log"
if [ -e "$path/broken" ]; then echo "timeout: $path: 20s"; exit 1; fi
case $verb in down) echo down;; *) echo run;; esac >"$path/supervise/state"
"""
RUNSVDIR = "echo runsvdir >>$PREFIX/log; while :; do read line <$PREFIX/fifo; done"
# The real one takes up every service that it finds; those without a down file start.
DAEMON = """\
"$PREFIX/bin/runsvdir" -P "$PREFIX/var/service" >&- 2>&- &
echo $! >"$PREFIX/pid"
for service in "$PREFIX"/var/service/*; do
    mkdir -p "$service/supervise"; : >"$service/supervise/ok"
    if [ -e "$service/down" ]; then echo down; else echo run; fi >"$service/supervise/state"
done
"""


class Runit:
    """The prefix's services and what was done to them."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix

    def service(self, name: str, state: str | None = None, down: bool = False) -> Path:
        path = self.prefix / "var/service" / name
        path.mkdir(parents=True)
        if down:
            (path / "down").touch()
        if state is not None:
            (path / "supervise").mkdir()
            (path / "supervise/ok").touch()
            (path / "supervise/state").write_text(state)
        return path

    @property
    def log(self) -> list[str]:
        log = self.prefix / "log"
        return log.read_text().split() if log.exists() else []


@pytest.fixture
def runit(prefix: Prefix) -> Iterator[Runit]:
    os.mkfifo(prefix.path / "fifo")
    for name, body in (("sv", SV), ("runsvdir", RUNSVDIR), ("service-daemon", DAEMON)):
        prefix.script(name, body)
    yield Runit(prefix.path)
    pid = prefix.path / "pid"
    if pid.exists():
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_service_that_runs_is_left_alone(run_module, runit):
    runit.service("sshd", "run")

    result = run_module("termux_service", name="sshd", enabled=True, state="started")

    assert result["changed"] is False
    assert result["status"] == "run"
    assert runit.log == []


def test_enabling_removes_the_down_file_and_starts(run_module, runit):
    path = runit.service("sshd", "down", down=True)

    result = run_module("termux_service", name="sshd", enabled=True, state="started")

    assert result["changed"] is True
    assert not (path / "down").exists()
    assert runit.log == ["up"]
    assert "enabled: false" in result["diff"]["before"]
    assert "enabled: true" in result["diff"]["after"]


def test_disabling_and_stopping(run_module, runit):
    path = runit.service("sshd", "run")

    first = run_module("termux_service", name="sshd", enabled=False, state="stopped")
    second = run_module("termux_service", name="sshd", enabled=False, state="stopped")

    assert (first["changed"], second["changed"]) == (True, False)
    assert (path / "down").exists()
    assert runit.log == ["down"]


def test_a_service_that_keeps_failing_can_be_stopped(run_module, runit):
    path = runit.service("sshd", "down")
    (path / "supervise/extra").write_text(", normally up, want up")

    assert run_module("termux_service", name="sshd", state="stopped")["changed"] is True
    assert runit.log == ["down"]


@pytest.mark.parametrize(("state", "sent"), [("restarted", "restart"), ("reloaded", "hup")])
def test_restart_and_reload_act_every_time(run_module, runit, state, sent):
    runit.service("sshd", "run")

    assert run_module("termux_service", name="sshd", state=state)["changed"] is True
    assert runit.log == [sent]


@pytest.mark.parametrize("state", ["restarted", "reloaded"])
def test_restart_and_reload_start_what_is_down(run_module, runit, state):
    runit.service("sshd", "down")

    run_module("termux_service", name="sshd", state=state)

    assert runit.log == ["up"]


def test_a_changed_configuration_is_read_once(run_module, runit, tmp_path):
    runit.service("sshd", "run")
    config = tmp_path / "sshd.conf"
    options = {"name": "sshd", "state": "reloaded", "config": [str(config)]}
    changed = []
    for text in ("a", "a", "b"):
        config.write_text(text)
        changed.append(run_module("termux_service", **options)["changed"])

    assert changed == [True, False, True]
    assert runit.log == ["hup", "hup"]


def test_a_reload_that_was_cut_off_is_made_up_for(run_module, runit, tmp_path):
    path = runit.service("sshd", "run")
    config = tmp_path / "sshd.conf"
    config.write_text("a")
    options = {"name": "sshd", "state": "reloaded", "config": [str(config)]}
    (path / "broken").touch()
    with pytest.raises(ModuleFailure):
        run_module("termux_service", **options)
    (path / "broken").unlink()

    assert run_module("termux_service", **options)["changed"] is True


def test_two_tasks_keep_their_files_apart(run_module, runit, tmp_path):
    runit.service("sshd", "run")
    files = [tmp_path / "one.conf", tmp_path / "two.conf"]
    for file in files:
        file.write_text("x")
    tasks = [{"name": "sshd", "state": "reloaded", "config": [str(file)]} for file in files]

    results = [run_module("termux_service", **task)["changed"] for task in (*tasks, *tasks)]

    assert results == [True, True, False, False]


def test_check_mode_does_not_remember_a_configuration(run_module, runit, tmp_path):
    runit.service("sshd", "run")
    options = {"name": "sshd", "state": "restarted", "config": [str(tmp_path / "none.conf")]}
    (tmp_path / "none.conf").write_text("x")

    assert run_module("termux_service", check=True, **options)["changed"] is True
    assert run_module("termux_service", **options)["changed"] is True
    assert runit.log == ["restart"]


def test_the_supervisor_is_started_when_none_runs(run_module, runit, monkeypatch):
    monkeypatch.delenv("SVDIR", raising=False)
    runit.service("sshd", down=True)

    first = run_module("termux_service", name="sshd", enabled=True, state="started")
    second = run_module("termux_service", name="sshd", enabled=True, state="started")

    assert (first["changed"], second["changed"]) == (True, False)
    assert runit.log.count("runsvdir") == 1


def test_no_second_supervisor_for_a_service_that_was_just_added(run_module, runit):
    runit.service("sshd")
    run_module("termux_service", name="sshd", state="started")
    late = runit.service("exporter", "down")
    (late / "supervise/ok").rename(late / "supervise/not-yet")
    # The supervisor's next look at the folder, in the imitation: any query after the first.
    body = f'mv "{late}/supervise/not-yet" "{late}/supervise/ok" 2>&-\n{SV}'
    prefix_sv = runit.prefix / "bin/sv"
    prefix_sv.write_text(f"#!/bin/sh\n{body}")

    assert run_module("termux_service", name="exporter", state="started")["changed"] is True
    assert runit.log.count("runsvdir") == 1


def test_stopping_needs_no_supervisor(run_module, runit):
    runit.service("sshd")

    assert run_module("termux_service", name="sshd", state="stopped")["changed"] is False
    assert runit.log == []


def test_check_mode_says_what_would_happen_and_does_nothing(run_module, runit):
    path = runit.service("sshd", "down", down=True)

    result = run_module("termux_service", check=True, name="sshd", enabled=True, state="started")

    assert result["changed"] is True
    assert result["diff"]["after"] == "enabled: true\nstatus: run\n"
    assert (path / "down").exists()
    assert runit.log == []


def test_a_missing_service_is_named_with_the_cure(run_module, runit):
    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_service", name="nginx", state="started")

    assert "no service nginx" in failure.value.result["msg"]
    assert "install its package" in failure.value.result["msg"]


def test_check_mode_accepts_a_service_whose_package_is_about_to_come(run_module, runit):
    assert run_module("termux_service", check=True, name="x", state="started")["changed"] is True


def test_a_service_that_does_not_start_is_named_with_its_log(run_module, runit):
    path = runit.service("sshd", "down")
    (path / "broken").touch()

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_service", name="sshd", state="started")

    message = failure.value.result["msg"]
    assert "sshd could not be started" in message
    assert "var/log/sv/sshd/current" in message


def test_a_supervisor_that_cannot_start_is_a_reason(run_module, runit, prefix):
    runit.service("sshd")
    prefix.script("service-daemon", "echo 'runsvdir: not found' >&2; exit 127")

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_service", name="sshd", state="started")

    assert "runsvdir: not found" in failure.value.result["msg"]
