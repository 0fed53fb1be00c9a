"""`fleetctl provision` on stand-in phones."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

pytestmark = pytest.mark.standin

PREFIX = "/data/data/com.termux/files/usr/bin"
MODULES = f"""
for place in /proc/[0-9]*/cmdline; do
    [ "$(tr '\\0' ' ' <$place)" != "{PREFIX}/sh -c {PREFIX}/python " ] || echo yes
done 2>/dev/null
"""
"""Tells whether a module of Ansible's is at work: its Python reads it from standard input."""


def at_work(rack: Any, phone: str) -> bool:
    return bool(rack.podman(phone, "/system/bin/sh", "-c", MODULES).stdout)


def until_at_work(rack: Any, phone: str) -> bool:
    """Waits on the phone itself: a module takes a second only."""
    waiting = f'n=0; while [ $n -lt 1500 ]; do [ -z "$({MODULES})" ] || exec echo yes; sleep 0.1; '
    return bool(rack.podman(phone, "/system/bin/sh", "-c", f"{waiting} n=$((n + 1)); done").stdout)


@pytest.mark.soak
def test_one_phase_of_some_phones_and_its_history(provisioned_rack: Any) -> None:
    rack = provisioned_rack
    done = rack.fleetctl("provision", "ssh", "phone[001-002]", "-o", "json")
    document = json.loads(done.stdout)
    assert document["exit_code"] == 0
    assert set(document["phones"]) == {"phone001", "phone002"}
    assert "Provision the phones: Run the services: 2 ok" in done.stderr
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
    assert until_at_work(rack, "phone001")
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=120)

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
