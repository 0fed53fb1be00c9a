"""The systemd unit of guard that role `controller` installs."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from controller_units import rendered

from fleetctl.guard.service import DISK_SECONDS, GATHER_SECONDS, TICK_SECONDS
from fleetctl.guard.watchdog import alive

LONGEST_TURN_SECONDS = TICK_SECONDS + GATHER_SECONDS + DISK_SECONDS


def test_the_unit_guards_this_rack_and_always_comes_back() -> None:
    unit = rendered("guard.service.j2", rack_file="/home/ada/racks/lab%.yml")
    service = unit["Service"]
    assert service["User"] == "ada"
    assert service["Environment"] == '"PHONERACK_HOME=/home/ada/phone state"'
    assert service["ExecStart"] == (
        '"/home/ada/phonerack/.venv/bin/fleetctl" --rack "/home/ada/racks/lab%%.yml" guard'
    )
    assert service["Restart"] == "always"
    assert float(service["WatchdogSec"]) > 10 * LONGEST_TURN_SECONDS
    assert service["NotifyAccess"] == "main"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"


@pytest.mark.parametrize("form", ["{folder}/notify", "@{folder}/notify"])
def test_systemd_hears_that_it_lives(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = form.format(folder=tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address.replace("@", "\0"))
        systemd.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        alive()
        assert systemd.recv(100) == b"WATCHDOG=1"
    alive()  # nobody listens any more
