"""The systemd unit that role `controller` installs."""

from __future__ import annotations

from controller_units import rendered


def test_the_unit_serves_this_rack_and_leaves_supervisors_alone_when_it_ends() -> None:
    unit = rendered(
        "serve.service.j2",
        rack_file="/home/ada/racks/lab.yml",
        controller_metrics="127.0.0.1:9867",
    )
    service = unit["Service"]
    assert service["User"] == "ada"
    assert service["Environment"] == '"PHONERACK_HOME=/home/ada/phone state"'
    assert service["ExecStart"] == (
        '"/home/ada/phonerack/.venv/bin/fleetctl" --rack "/home/ada/racks/lab.yml" serve '
        "--metrics 127.0.0.1:9867"
    )
    assert (service["KillMode"], service["Restart"]) == ("process", "always")
