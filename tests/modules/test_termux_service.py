"""termux_service drives the real runit in a throw-away Termux prefix."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from termux_prefix import ModuleFailure, Prefix

# Notes its starts and hangups, and ends on TERM, as a daemon does.
RUN = """\
#!/bin/bash
echo start >>../../log-$(basename "$PWD")
trap 'echo hangup >>../../log-$(basename "$PWD"); kill $!' HUP
trap 'kill $(jobs -p); exit 0' TERM
while :; do sleep 1000 & wait; done
"""
DAEMON = """\
test "$1" = start && echo daemon >>"$PREFIX/var/log-daemon"
SVDIR= exec setsid "$PREFIX/bin/runsvdir" -P "$PREFIX/var/service" >/dev/null 2>&1 </dev/null &
"""


class Runit:
    """The prefix's services and what happened to them."""

    def __init__(self, prefix: Path, run_module: Callable[..., dict[str, Any]]) -> None:
        self.prefix = prefix
        self.services = prefix / "var/service"
        self._run_module = run_module

    def service(self, name: str, down: bool = False, run: str = RUN) -> Path:
        """A service folder; runsvdir looks for new ones when it starts, then every 5 s."""
        path = self.services / name
        path.mkdir(parents=True)
        (path / "run").write_text(run)
        (path / "run").chmod(0o755)
        if down:
            (path / "down").touch()
        return path

    def start(self) -> None:
        subprocess.run([self.prefix / "bin/service-daemon", "start"], check=True)
        for path in self.services.iterdir():
            await_that(lambda path=path: "run:" in self.said(path) or "down:" in self.said(path))

    def said(self, path: Path) -> str:
        return subprocess.run(["sv", "status", path], capture_output=True, text=True).stdout

    def is_up(self, name: str) -> bool:
        return self.said(self.services / name).startswith("run:")

    def log(self, name: str) -> list[str]:
        """start and hangup, in order."""
        log = self.prefix / f"var/log-{name}"
        return log.read_text().split() if log.exists() else []

    def ensure(self, *services: dict[str, Any], check: bool = False) -> dict[str, Any]:
        constants = {"STEADY_SECONDS": 0.1}
        return self._run_module(
            "termux_service", check=check, constants=constants, services=list(services)
        )

    def ensure_patiently(self, *services: dict[str, Any]) -> dict[str, Any]:
        """With the module's own patience, which tells a service that keeps failing."""
        return self._run_module("termux_service", services=list(services))


def await_that(happens: Callable[[], object], limit_seconds: float = 30) -> None:
    deadline = time.monotonic() + limit_seconds
    while not happens():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)


@pytest.fixture
def runit(run_module, prefix: Prefix, monkeypatch) -> Iterator[Runit]:
    monkeypatch.delenv("SVDIR", raising=False)
    for name in ("sv", "runsvdir", "runsv"):
        found = shutil.which(name)
        assert found, f"{name} is missing: tools/setup dev installs runit"
        (prefix.path / "bin" / name).symlink_to(found)
    prefix.script("service-daemon", DAEMON)
    made = Runit(prefix.path, run_module)
    made.services.mkdir(parents=True)
    yield made
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if words[0].endswith("runsvdir") and str(made.services) in words:
            os.kill(int(folder.name), signal.SIGHUP)  # it takes its services down with it
    await_that(lambda: not list(working_under(made.services)))


def working_under(folder: Path) -> Iterator[int]:
    """Processes whose working directory lies there: runsv, and what it runs."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder):
                yield int(process.name)


def sshd(**wishes: Any) -> dict[str, Any]:
    return {"name": "sshd", **wishes}


def test_a_service_that_runs_is_left_alone(runit):
    runit.service("sshd")
    runit.start()

    result = runit.ensure(sshd(enabled=True, state="started"))

    assert result["changed"] is False
    assert result["services"]["sshd"] == {"status": "run", "changed": False}
    assert runit.log("sshd") == ["start"]


def test_enabling_removes_the_down_file_and_starts(runit):
    path = runit.service("sshd", down=True)
    runit.start()

    result = runit.ensure(sshd(enabled=True, state="started"))

    assert result["changed"] is True
    assert not (path / "down").exists()
    assert runit.is_up("sshd")
    assert result["diff"] == {"before": "sshd: disabled, down\n", "after": "sshd: enabled, run\n"}


def test_disabling_and_stopping(runit):
    path = runit.service("sshd")
    runit.start()

    changed = [runit.ensure(sshd(enabled=False, state="stopped"))["changed"] for _ in range(2)]

    assert changed == [True, False]
    assert (path / "down").exists()
    assert not runit.is_up("sshd")


def test_enabled_and_state_are_apart(runit):
    path = runit.service("sshd", down=True)
    runit.start()

    assert runit.ensure(sshd(enabled=True))["changed"] is True
    assert not (path / "down").exists()
    assert not runit.is_up("sshd")


@pytest.mark.parametrize(
    ("state", "after"), [("restarted", ["start", "start"]), ("reloaded", ["start", "hangup"])]
)
def test_without_config_restart_and_reload_act_every_time(runit, state, after):
    runit.service("sshd")
    runit.start()

    assert runit.ensure(sshd(state=state))["changed"] is True
    await_that(lambda: runit.log("sshd") == after)


def test_a_reload_starts_what_is_down_and_does_no_more(runit):
    runit.service("sshd", down=True)
    runit.start()

    runit.ensure(sshd(state="reloaded"))

    assert runit.log("sshd") == ["start"]


class TestConfiguration:
    """With `config`, a service is touched only when it may run with an old one."""

    @pytest.fixture
    def config(self, tmp_path: Path) -> Path:
        path = tmp_path / "sshd.conf"
        path.write_text("a")
        return path

    @pytest.fixture
    def wanted(self, runit, config) -> dict[str, Any]:
        runit.service("sshd")
        runit.start()
        return sshd(enabled=True, state="reloaded", config=[str(config)])

    @staticmethod
    def put(path: Path, text: str) -> None:
        """As phone_files does: a new file takes the place."""
        new = path.with_suffix(".new")
        new.write_text(text)
        new.replace(path)

    def test_a_change_is_read_once(self, runit, config, wanted):
        first = [runit.ensure(wanted)["changed"] for _ in range(2)]
        self.put(config, "b")
        then = [runit.ensure(wanted)["changed"] for _ in range(2)]

        assert (first, then) == ([True, False], [True, False])
        await_that(lambda: runit.log("sshd") == ["start", "hangup", "hangup"])

    def test_a_run_that_was_cut_off_after_writing_is_made_up_for(self, runit, config, wanted):
        runit.ensure(wanted)
        self.put(config, "b")  # and the run ends here

        assert runit.ensure(wanted)["changed"] is True

    def test_an_old_text_that_came_and_went_again_is_no_secret(self, runit, config, wanted):
        """In between the service may have started with the other one."""
        runit.ensure(wanted)
        self.put(config, "b")
        self.put(config, "a")

        assert runit.ensure(wanted)["changed"] is True

    def test_a_clock_at_1970_confuses_nothing(self, runit, config, wanted):
        runit.ensure(wanted)
        self.put(config, "b")
        os.utime(config, (1, 1))

        assert [runit.ensure(wanted)["changed"] for _ in range(2)] == [True, False]

    def test_a_restart_by_itself_is_no_change(self, runit, wanted):
        runit.ensure(wanted)
        subprocess.run(["sv", "restart", runit.services / "sshd"], check=True, capture_output=True)
        # runsv waits for a second before it starts again what had run for less than one.
        await_that(lambda: runit.is_up("sshd") and runit.log("sshd").count("start") == 2)

        assert runit.ensure(wanted)["changed"] is False

    def test_a_file_that_is_removed_is_a_change(self, runit, config, wanted):
        runit.ensure(wanted)
        config.unlink()

        assert [runit.ensure(wanted)["changed"] for _ in range(2)] == [True, False]

    def test_check_mode_remembers_nothing(self, runit, wanted):
        assert runit.ensure(wanted, check=True)["changed"] is True
        await_that(lambda: runit.log("sshd") == ["start"])
        assert runit.ensure(wanted)["changed"] is True

    def test_two_runs_with_other_files_do_not_forget_each_other(self, runit, config, wanted):
        other = config.with_name("other.conf")
        other.write_text("x")
        both = [wanted, sshd(state="reloaded", config=[str(other)])]

        changed = [runit.ensure(one)["changed"] for one in (*both, *both)]

        assert changed == [True, True, False, False]

    def test_a_damaged_record_is_as_none(self, runit, wanted):
        runit.ensure(wanted)
        (runit.services / "sshd/phonerack-applied.json").write_text("{")

        assert runit.ensure(wanted)["changed"] is True


def test_several_roles_may_want_something_of_one_service(runit, tmp_path):
    runit.service("sshd")
    runit.start()
    for name in ("one", "two"):
        (tmp_path / name).write_text("x")
    wishes = [sshd(state="reloaded", config=[str(tmp_path / name)]) for name in ("one", "two")]

    assert [runit.ensure(*wishes)["changed"] for _ in range(2)] == [True, False]
    await_that(lambda: runit.log("sshd") == ["start", "hangup"])


def test_contradicting_roles_change_nothing(runit):
    runit.service("sshd")
    runit.start()

    with pytest.raises(ModuleFailure) as failure:
        runit.ensure(sshd(state="started"), sshd(state="stopped"))

    assert "sshd: state shall be started and stopped" in failure.value.result["msg"]
    assert runit.is_up("sshd")


def test_the_supervisor_is_started_once_when_none_runs(runit):
    runit.service("sshd", down=True)
    wanted = sshd(enabled=True, state="started")

    assert [runit.ensure(wanted)["changed"] for _ in range(2)] == [True, False]
    assert runit.is_up("sshd")
    assert runit.log("daemon") == ["daemon"]


def test_no_second_supervisor_for_a_service_that_was_just_added(runit):
    runit.service("sshd")
    runit.start()
    runit.service("exporter")

    wanted = {"name": "exporter", "enabled": True, "state": "started"}
    assert [runit.ensure(wanted)["changed"] for _ in range(2)] == [True, False]
    assert runit.log("daemon") == ["daemon"]


def test_a_logger_is_a_service_too(runit):
    path = runit.service("exporter")
    logger = path / "log/run"
    logger.parent.mkdir()
    logger.write_text("#!/bin/sh\nexec cat\n")
    logger.chmod(0o755)
    runit.start()
    await_that(lambda: runit.is_up("exporter/log"))
    before = runit.said(path / "log")

    wanted = {"name": "exporter/log", "state": "restarted", "config": [str(logger)]}

    assert [runit.ensure(wanted)["changed"] for _ in range(2)] == [True, False]
    assert runit.said(path / "log").split(")")[0] != before.split(")")[0]
    assert runit.log("exporter") == ["start"]


def test_stopping_needs_no_supervisor(runit):
    runit.service("sshd")

    assert runit.ensure(sshd(state="stopped"))["changed"] is False
    assert runit.log("daemon") == []


def test_check_mode_says_what_would_happen_and_does_nothing(runit):
    path = runit.service("sshd", down=True)
    runit.start()

    result = runit.ensure(sshd(enabled=True, state="started"), check=True)

    assert result["diff"]["after"] == "sshd: enabled, run\n"
    assert (path / "down").exists()
    assert not runit.is_up("sshd")


def test_check_mode_accepts_a_service_whose_package_is_about_to_come(runit):
    assert runit.ensure(sshd(state="started"), check=True)["changed"] is True


def test_a_service_that_fails_is_named_and_the_others_are_served(runit):
    runit.service("broken", run="#!/bin/sh\nsleep 0.5\nexit 1\n")
    log = runit.prefix / "var/log/sv/broken/current"
    log.parent.mkdir(parents=True)
    log.write_text("first\nBind to port 8022 failed: Address already in use\n")
    runit.service("sshd", down=True)
    runit.start()

    with pytest.raises(ModuleFailure) as failure:
        runit.ensure_patiently(
            {"name": "nginx", "state": "started"},
            {"name": "broken", "state": "restarted"},
            sshd(state="started"),
        )

    message = failure.value.result["msg"]
    assert "no service nginx" in message
    assert "install its package" in message
    assert "broken" in message
    assert "Address already in use" in message
    assert runit.is_up("sshd")


@pytest.mark.soak
def test_a_service_that_fails_is_no_steadier_on_a_phone_that_is_slow_to_answer(runit, prefix):
    runit.service("broken", run="#!/bin/sh\nsleep 0.9\nexit 1\n")
    runit.start()
    real = (prefix.path / "bin/sv").readlink()
    (prefix.path / "bin/sv").unlink()
    slow = prefix.path / "slow"
    cases = f"*up*|*restart*) touch {slow};; *status*) rm {slow} 2>/dev/null && sleep 1.3;;"
    prefix.script("sv", f'case "$*" in {cases} esac\nexec {real} "$@"')

    with pytest.raises(ModuleFailure, match="broken ends as soon as it starts"):
        runit.ensure_patiently({"name": "broken", "state": "restarted"})


def test_a_service_that_keeps_failing_can_be_stopped(runit):
    path = runit.service("broken", run="#!/bin/sh\nexit 1\n")
    runit.start()

    assert runit.ensure({"name": "broken", "state": "stopped"})["changed"] is True
    await_that(lambda: "want up" not in runit.said(path))


def test_a_supervisor_that_cannot_start_is_a_reason(runit, prefix):
    runit.service("sshd")
    prefix.script("service-daemon", "echo 'runsvdir: not found' >&2; exit 127")

    with pytest.raises(ModuleFailure) as failure:
        runit.ensure(sshd(state="started"))

    assert "runsvdir: not found" in failure.value.result["msg"]
