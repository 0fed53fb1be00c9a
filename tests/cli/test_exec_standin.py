"""`exec` and `identify` on stand-in phones: whatever ends them here, nothing is left there."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.standin


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def running(command: str) -> int:
    """How many phones still run this very command: their processes are this machine's, too."""
    found = subprocess.run(["pgrep", "-xf", command], capture_output=True, text=True)
    return len(found.stdout.split())


def start(rack: Any, *words: str) -> subprocess.Popen[str]:
    """`fleetctl …` in a session of its own, as in a terminal."""
    return subprocess.Popen(
        ["fleetctl", *words],
        env=rack.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_equal_output_comes_once_and_what_failed_is_a_node_set(provisioned_rack: Any) -> None:
    rack = provisioned_rack
    address = rack.fleetctl_json("status", "phone003")["phones"][0]["address"]
    command = f"uname; case $SSH_CONNECTION in *' {address} '*) exit 1 ;; esac"
    done = rack.fleetctl("exec", "@phones", "--", command, check=False)
    assert "phone[001-006] (6):\nLinux\n" in done.stdout
    assert done.returncode == 3
    assert "phone003: exit code 1" in done.stderr

    again = rack.fleetctl("exec", "@last-failed", "-o", "json", "--", "true")
    assert list(json.loads(again.stdout)["phones"]) == ["phone003"]

    missing = rack.fleetctl("exec", "@phones", "--", "iperf4 -s", check=False)
    assert missing.returncode == 3
    assert "phone[001-006]: exit code 127: it lacks a command of `iperf4 -s`" in missing.stderr


def test_input_goes_to_every_phone_and_of_one_phone_output_comes_as_it_is(
    provisioned_rack: Any,
) -> None:
    given = b"\0\1binary\xff" * 10_000
    done = subprocess.run(
        ["fleetctl", "exec", "phone002", "--stdin", "--", "sha256sum"],
        env=provisioned_rack.env,
        input=given,
        capture_output=True,
        check=True,
    )
    assert done.stdout == f"{hashlib.sha256(given).hexdigest()}  -\n".encode()


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGHUP, marks=pytest.mark.soak)],
)
def test_nothing_is_left_on_phones_whatever_ends_it_here(
    provisioned_rack: Any, number: signal.Signals
) -> None:
    line = f"sleep {4_000 + number}.5"
    command = start(provisioned_rack, "exec", "phone[001-003]", "-t", "300", "--", line)
    until(lambda: running(line) == 3)
    os.kill(command.pid, number)
    _, said = command.communicate(timeout=30)
    if number != signal.SIGKILL:
        assert command.returncode == 130, said
        assert "phone[001-003]: interrupted" in said
    until(lambda: not running(line))


def test_a_command_over_its_time_is_named_and_gone(provisioned_rack: Any) -> None:
    done = provisioned_rack.fleetctl(
        "exec", "phone[001-002]", "-t", "2", "--", "trap '' TERM; sleep 3999.5; sleep 3999.5",
        check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "phone[001-002] did not finish the command within 2 s" in done.stderr
    until(lambda: not running("sleep 3999.5"))


def android(rack: Any, phone: str) -> dict[str, Any]:
    """What the stand-in's Android has seen."""
    found = list(rack.folder.rglob(f"{phone}/android.json"))
    document: dict[str, Any] = json.loads(found[0].read_text())
    return document


def test_a_phone_shows_itself_and_its_torch_is_off_in_the_end(provisioned_rack: Any) -> None:
    rack = provisioned_rack
    command = start(rack, "identify", "phone003", "--seconds", "600")
    until(lambda: bool(android(rack, "phone003")["torch"]))
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=30)
    assert command.returncode == 130, said
    until(lambda: not android(rack, "phone003")["torch"])
    assert android(rack, "phone003")["signals"][:2] == ["torch on", "torch off"]
    assert not android(rack, "phone001")["signals"]


@pytest.mark.soak
def test_a_phone_says_its_name_and_vibrates(provisioned_rack: Any) -> None:
    rack = provisioned_rack
    rack.fleetctl("identify", "phone004", "--by", "screen", "--seconds", "1")
    rack.fleetctl("identify", "phone004", "--by", "vibration", "--seconds", "1")
    assert android(rack, "phone004")["signals"][:2] == ["toast phone004", "vibrate 800"]


@pytest.mark.soak
def test_power_is_cut_when_the_phone_says_so_and_a_hub_that_lies_is_found_out(
    provisioned_rack: Any,
) -> None:
    rack = provisioned_rack
    rack.fleetctl("drain", "phone005", "--why", "new battery")
    try:
        rack.fleetctl("power", "phone[004-005]", "--outlet", "off")
        drained = {phone["name"]: phone for phone in rack.fleetctl_json("status")["phones"]}
        assert drained["phone004"]["drains"]
        rack.fleetctl("power", "phone[004-005]", "--outlet", "on")
        after = {phone["name"]: phone for phone in rack.fleetctl_json("status")["phones"]}
        assert not after["phone004"]["drains"]
        assert [drain["why"] for drain in after["phone005"]["drains"]] == ["new battery"]

        rack.fleetctl("standin", "fault", "phone004", "hub-lies")
        lied = rack.fleetctl("power", "phone004", "--outlet", "off", check=False)
        assert lied.returncode == 1
        assert "phone004: power not cut" in lied.stderr
    finally:
        rack.fleetctl("standin", "heal", "phone004")
        rack.fleetctl("power", "phone[004-005]", "--outlet", "on", check=False)
        rack.fleetctl("undrain", "phone005")
