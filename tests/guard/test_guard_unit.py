"""The systemd unit of guard that role `controller` installs."""

from __future__ import annotations

from controller_units import rendered


def test_the_unit_guards_this_rack_and_always_comes_back() -> None:
    unit = rendered("guard.service.j2", rack_file="/home/ada/racks/lab%.yml")
    service = unit["Service"]
    assert service["User"] == "ada"
    assert service["Environment"] == '"PHONERACK_HOME=/home/ada/phone state"'
    assert service["ExecStart"] == (
        '"/home/ada/phonerack/.venv/bin/fleetctl" --rack "/home/ada/racks/lab%%.yml" guard'
    )
    assert service["Restart"] == "always"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
