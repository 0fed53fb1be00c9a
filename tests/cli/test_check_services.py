"""`fleetctl check controller` looks at guard and serve as they are on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fleetctl.cli import check_controller
from fleetctl.cli.main import cli
from fleetctl.guard.kept import Kept
from fleetctl.rack import RackPaths
from fleetctl.serve.lock import serving

RACK = """
rack: home
network: {cidr: 127.81.0.0/24, medium: wifi, controller: 127.81.0.1}
phones: [127.81.0.11-13]
"""


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RackPaths:
    """Those of a rack on a machine without services."""
    file = tmp_path / "rack.yml"
    file.write_text(RACK)
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHONERACK_RACK", str(file))
    monkeypatch.setattr(check_controller, "UNITS", tmp_path)
    return RackPaths("home", tmp_path / "home")


def found(name: str) -> tuple[str, str]:
    """Status and message of one check."""
    done = CliRunner().invoke(cli, ["check", "controller", "-o", "json"])
    each = next(each for each in json.loads(done.stdout)["checks"] if each["name"] == name)
    return each["status"], each["message"]


def test_a_guard_that_watches_is_told_from_one_that_ended_and_from_none(paths: RackPaths) -> None:
    assert found("guard")[0] == "WARN"
    kept = Kept(paths)
    with kept.alone():
        kept.save("{}")
        assert found("guard")[0] == "OK"
    assert found("guard")[0] == "CRITICAL"


def test_a_job_that_waits_while_nobody_serves_is_a_fault(paths: RackPaths, tmp_path: Path) -> None:
    assert found("serve") == ("OK", "nobody serves the rack, and no job waits for it")
    (tmp_path / "phonerack-serve-home.service").touch()
    assert found("serve")[0] == "WARN"
    CliRunner().invoke(cli, ["launch", "--queue", "-n", "2", "--name", "waits", "--", "true"])
    assert found("serve")[0] == "CRITICAL"
    assert found("serve")[1].startswith("1 job waits in the queue")
    with serving(paths.serve_lock):
        assert found("serve")[1].startswith("served by process ")


def test_a_queue_that_cannot_be_read_is_unknown(paths: RackPaths) -> None:
    paths.ensure()
    paths.queue_db.write_bytes(b"no database" * 1000)
    assert found("serve")[0] == "UNKNOWN"
