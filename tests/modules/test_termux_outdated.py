"""A service whose program a package has replaced is brought to run the new one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from test_termux_service import Runit, await_that, runit, sshd

__all__ = ["runit"]


class Daemon:
    """A service of a program below the prefix, which a package may replace as dpkg does."""

    def __init__(self, runit: Runit, name: str, on_hangup: str = "kill $!") -> None:
        self.runit = runit
        self.program = runit.prefix / f"bin/{name}"
        shutil.copy(os.path.realpath("/bin/bash"), self.program)
        log = f"echo LINE >>{runit.prefix}/var/log-{name}"
        runit.service(
            name,
            run=f"#!{self.program}\n{log.replace('LINE', 'start')}\n"
            f"trap '{log.replace('LINE', 'hangup')}; {on_hangup}' HUP\n"
            "trap 'kill $(jobs -p); exit' TERM\n"
            "while :; do sleep 1000 & wait; done\n",
        )

    def upgrade(self) -> None:
        shutil.copy(self.program, f"{self.program}.dpkg-new")
        Path(f"{self.program}.dpkg-new").replace(self.program)


def test_what_runs_a_program_that_was_replaced_is_restarted(runit, tmp_path):
    config = tmp_path / "config"
    config.write_text("x")
    daemon = Daemon(runit, "exporter")
    runit.start()
    wish = {"name": "exporter", "state": "restarted", "config": [str(config)]}
    runit.ensure(wish)
    assert runit.ensure(wish)["changed"] is False
    before = len(runit.log("exporter"))

    daemon.upgrade()

    assert runit.ensure(wish, check=True)["changed"] is True
    assert len(runit.log("exporter")) == before
    assert runit.ensure(wish)["changed"] is True
    assert runit.log("exporter")[before:] == ["start"]
    assert runit.ensure(wish)["changed"] is False


@pytest.mark.parametrize(
    ("on_hangup", "log"),
    [
        ("kill $!; exec ./run", ["start", "hangup", "start"]),
        ("kill $!", ["start", "hangup", "start"]),
    ],
    ids=["starts itself anew, as sshd", "goes on, and is restarted"],
)
def test_a_reload_brings_the_new_program(runit, monkeypatch, on_hangup, log):
    daemon = Daemon(runit, "sshd", on_hangup)
    runit.start()
    await_that(lambda: runit.log("sshd") == ["start"])
    wish = sshd(state="reloaded", only_if_outdated=True)
    assert runit.ensure(wish)["changed"] is False
    process = runit.said(runit.services / "sshd").split("pid ")[1].split(")")[0]

    daemon.upgrade()

    assert runit.ensure(wish)["changed"] is True
    await_that(lambda: runit.log("sshd") == log)
    same = runit.said(runit.services / "sshd").split("pid ")[1].split(")")[0] == process
    assert same == ("exec" in on_hangup)
    assert runit.ensure(wish)["changed"] is False


def test_only_what_is_outdated_is_touched(runit):
    """What is not there, or was stopped, is left alone."""
    runit.service("exporter", down=True)
    runit.start()

    result = runit.ensure(
        sshd(state="reloaded", only_if_outdated=True),
        {"name": "exporter", "state": "restarted", "only_if_outdated": True},
    )

    assert result["changed"] is False
    assert runit.log("exporter") == []
