"""The rack's switches from the rack file to a report: secrets, backups, one run at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lab import SECRETS, fleet

from fleetctl.errors import ExitCode
from fleetctl.rack import InputError
from fleetctl.switches import backups
from fleetctl.switches.errors import SwitchError
from fleetctl.switches.fleet import HeldError
from fleetctl.switches.job import Report

type Make = Callable[..., Any]


def test_a_switch_is_provisioned_and_its_configurations_are_kept(lab: Make, tmp_path: Path) -> None:
    switches = fleet(lab(), tmp_path)
    report = switches.provision()["sw1"]
    assert isinstance(report, Report), report
    assert report.result == "changed"
    kept = backups.list_backups(switches.folder("sw1"))
    # As it came out of its box, prepared for a change that can be taken back, and as it is now.
    new, prepared, old = (path.read_text() for path in kept)
    assert "hostname sw1" in new
    assert "archive" in prepared
    assert "hostname Switch" in prepared
    assert "hostname Switch" in old
    assert "archive" not in old
    for path in kept:
        assert path.stat().st_mode & 0o777 == 0o600
        assert not any(secret in path.read_text() for secret in SECRETS.values())
    assert "snmp-server community <snmp_community> RO" in new


def test_a_switch_returns_to_a_backup_secrets_included(lab: Make, tmp_path: Path) -> None:
    rig = lab()
    switches = fleet(rig, tmp_path)
    rig.settle()
    right = rig.settings()
    rig.type("interface gi1/0/9\nswitchport trunk allowed vlan 10,30\nvlan 30\nname cellar")
    switches.provision()
    wrong = backups.list_backups(switches.folder("sw1"))[-1]
    report = switches.provision(["sw1"], restore=wrong)["sw1"]
    assert isinstance(report, Report), report
    assert rig.settings().vlans == {10: "phones", 20: "cameras", 30: "cellar"}
    assert rig.settings().snmp_communities == right.snmp_communities
    assert rig.startup() == rig.settings()


def test_a_secret_that_is_missing_is_named_before_anything_is_sent(
    lab: Make, tmp_path: Path
) -> None:
    rig = lab()
    before = rig.look(lambda device: device.lines_entered)
    switches = fleet(rig, tmp_path, sources=({"switch_password": "x"}.get,))
    answer = switches.provision()["sw1"]
    assert isinstance(answer, SwitchError)
    assert "no secret `snmp_community`" in str(answer)
    assert rig.look(lambda device: device.lines_entered) == before


def test_only_known_and_managed_switches_can_be_named(lab: Make, tmp_path: Path) -> None:
    switches = fleet(lab(), tmp_path)
    with pytest.raises(InputError, match="no switch sw2 in this rack; did you mean `sw1`"):
        switches.provision(["sw2"])
    plain = replace(switches.rack.switches["sw1"], platform="unmanaged")
    unmanaged = replace(switches, rack=replace(switches.rack, switches={"sw1": plain}))
    with pytest.raises(InputError, match="switch sw1 is unmanaged"):
        unmanaged.provision(["sw1"])
    assert unmanaged.provision() == {}


def test_two_runs_at_once_the_second_says_so(lab: Make, tmp_path: Path) -> None:
    switches = fleet(lab(), tmp_path)
    with (
        switches.alone(),
        pytest.raises(HeldError, match="another run works on the switches") as held,
    ):
        switches.provision(dry=True)
    assert held.value.exit_code == ExitCode.HELD


def test_the_same_configuration_is_kept_once_whatever_the_time(tmp_path: Path) -> None:
    text = "! Last configuration change at {} UTC\nhostname sw1\nend\n"
    first = backups.keep(tmp_path, text.format("10:00:00"), datetime(2026, 1, 1, tzinfo=UTC))
    again = backups.keep(tmp_path, text.format("11:00:00"), datetime(2026, 1, 2, tzinfo=UTC))
    assert again == first
    other = backups.keep(tmp_path, text.replace("sw1", "x"), datetime(2026, 1, 3, tzinfo=UTC))
    assert backups.list_backups(tmp_path) == [other, first]
