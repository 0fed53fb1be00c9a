"""Phones that take no part in a run are told once, at its end, and stop nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleetctl.rack import RackPaths
from fleetctl.rack.lock import Locked, write_lock
from fleetctl.state import State

PROJECT = Path(__file__).resolve().parents[2]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
RACK = """
rack: lab
network: {cidr: 127.77.3.0/28, medium: ethernet, dhcp: ours, controller: 127.77.3.1}
phones: [{addresses: 127.77.3.3-5}]
"""


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three phones, of which the last was never met on the wire; none of them answers."""
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    file = tmp_path / "rack.yml"
    file.write_text(RACK)
    entries = {f"phone00{n}": Locked(serial=f"R{n}", mac=f"02:00:00:00:00:0{n}") for n in (1, 2)}
    paths = RackPaths("lab")
    paths.ensure()
    write_lock(paths.lock_file, "lab", entries | {"phone003": Locked(serial="R3")})
    mirror_key(paths).write_text("as site.yml -t controller leaves it\n")
    return file


def mirror_key(paths: RackPaths) -> Path:
    return paths.dir / "mirror.asc"


def site(
    rack: Path, *arguments: str, playbook: str = "phones.yml"
) -> subprocess.CompletedProcess[str]:
    quick = ("-e", "termux_connect_retries=0", "-e", "ansible_ssh_timeout=2")
    return subprocess.run(
        [PLAYBOOK, "-i", rack, PROJECT / "playbooks" / playbook, *quick, *arguments],
        cwd=PROJECT,
        env={**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "COLUMNS": "160"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def test_a_phone_that_waits_for_the_wire_is_left_out_by_name(rack: Path) -> None:
    run = site(rack)

    ready, reached = run.stdout.split("NOT READY")[1].split("NOT REACHED")
    assert "phone003 without an address: its adapter is not known yet" in ready
    assert "`fleetctl enroll --wire`" in ready
    # The others were asked for all that, and each reason is said once.
    told = [line for line in reached.splitlines() if "phone[001-002]" in line]
    assert len(told) == 1
    asked = run.stdout.split("Ask the phone what it has", 1)[1].split("PLAY RECAP")[0]
    assert "phone001" in asked
    assert "phone003" not in asked
    assert run.returncode == 4


def test_a_run_for_such_a_phone_alone_is_no_success(rack: Path) -> None:
    run = site(rack, "-l", "phone003")

    assert run.returncode == 2
    assert "phone003 without an address" in " ".join(run.stdout.split())
    assert "NOT READY" not in run.stdout


@pytest.fixture
def training(rack: Path) -> Path:
    """The rack, whose first phone works for a run."""
    with State(RackPaths("lab").state_db) as state:
        state.allocate("digits-7", ["phone001"])
    return rack


def met(run: subprocess.CompletedProcess[str]) -> set[str]:
    """Phones that were asked what they have."""
    asked = run.stdout.split("Ask the phone what it has", 1)[-1].split("PLAY RECAP")[0]
    return {name for name in ("phone001", "phone002", "phone003") if name in asked}


@pytest.mark.parametrize("tags", [(), ("-t", "release")])
def test_a_phone_that_works_for_a_run_is_left_as_it_is_and_named(
    training: Path, tags: tuple[str, ...]
) -> None:
    run = site(training, *tags)

    ready, reached = run.stdout.split("NOT READY")[1].split("NOT REACHED")
    assert "phone001 busy with run digits-7: left as it is; run this again when" in ready
    assert met(run) == {"phone002"}
    assert "phone001" not in reached
    # Of the phone that does not answer; that one is busy is no failure.
    assert run.returncode == 4


def test_what_a_run_does_not_notice_comes_to_busy_phones_too(training: Path) -> None:
    """A key is revoked at once, not when training ends."""
    run = site(training, "-t", "ssh")

    assert "NOT READY" not in run.stdout or "phone001" not in run.stdout.split("NOT READY")[1]
    assert met(run) == {"phone001", "phone002"}


def test_a_run_for_busy_phones_alone_is_no_success(training: Path) -> None:
    run = site(training, "-l", "phone001")

    assert run.returncode == 2
    assert "phone001: busy with run digits-7" in " ".join(run.stdout.split())
    assert "Ask the phone what it has" not in run.stdout


def test_phones_that_work_for_a_run_are_not_in_the_proof_that_the_rack_works(
    training: Path,
) -> None:
    run = site(training, playbook="verify.yml")

    assert met(run) == {"phone002"}
    assert "phone001 busy with run digits-7" in run.stdout.split("NOT READY")[1]


def test_a_phone_of_a_rack_that_nothing_serves_yet_is_refused_before_it_is_asked(
    rack: Path,
) -> None:
    mirror_key(RackPaths("lab")).unlink()

    run = site(rack, "-l", "phone002")

    said = " ".join(run.stdout.split())
    assert run.returncode == 2
    assert "nothing serves this rack's phones yet, their packages and addresses" in said
    assert "run `site.yml -t controller` first, without a limit" in said
    assert "Ask the phone what it has" not in said
