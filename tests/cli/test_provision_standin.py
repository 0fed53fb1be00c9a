"""`fleetctl provision` on stand-in phones."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import Any

import pytest

pytestmark = pytest.mark.standin

COMMANDS = "grep -l '[s]leep 0' /proc/[0-9]*/cmdline"
"""Ansible has each of its commands end so."""


def at_work(rack: Any, phone: str) -> bool:
    return bool(rack.podman(phone, "/system/bin/sh", "-c", COMMANDS).stdout)


@pytest.mark.soak
def test_one_phase_of_some_phones_and_its_history(provisioned_rack: Any) -> None:
    rack = provisioned_rack
    done = rack.fleetctl("provision", "ssh", "phone[001-002]", "-o", "json")
    document = json.loads(done.stdout)
    assert document["exit_code"] == 0
    assert set(document["phones"]) == {"phone001", "phone002"}
    assert "Bring the phones what they need" in done.stderr
    newest = rack.fleetctl_json("provision", "--history")["runs"][0]
    assert newest["run"] == document["run"]
    assert newest["arguments"] == ["ssh", "phone[001-002]"]


def test_ctrl_c_ends_it_here_and_on_the_phones(provisioned_rack: Any) -> None:
    rack = provisioned_rack
    run = subprocess.Popen(
        ["fleetctl", "provision", "phones", "phone[001-002]"],
        env=rack.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not at_work(rack, "phone001"):
        assert run.poll() is None
        assert time.monotonic() < deadline
    second = rack.fleetctl("provision", "validate", check=False)
    assert second.returncode == 5
    assert "provisions this rack now" in second.stderr

    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)

    assert run.returncode == 130, said
    assert "interrupted" in said
    assert not at_work(rack, "phone001")
    assert not at_work(rack, "phone002")
    listed = subprocess.run(["pgrep", "-f", "/provision-.*/cp/"], capture_output=True, text=True)
    assert not listed.stdout
    assert rack.fleetctl_json("provision", "--history")["runs"][0]["exit_code"] == 130


@pytest.mark.soak
def test_a_phone_that_is_away_costs_a_line_and_the_code_of_some(provisioned_rack: Any) -> None:
    rack = provisioned_rack
    rack.fleetctl("standin", "fault", "phone006", "kill")
    try:
        some = rack.fleetctl("provision", "ssh", "phone[005-006]", check=False)
        assert some.returncode == 3, some.stderr
        assert "phone006" in some.stderr
        none = rack.fleetctl("provision", "ssh", "@last-failed", check=False)
        assert none.returncode == 4, none.stderr
    finally:
        rack.fleetctl("standin", "heal", "phone006")
