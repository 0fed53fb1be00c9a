"""The way back to a backup is a change like any other: what does not fit is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import KINDS
from lab import SECRETS, fleet

from fleetctl.switches import backups
from fleetctl.switches.errors import SwitchError
from fleetctl.switches.fleet import Switches
from fleetctl.switches.job import Report

type Make = Callable[..., Any]
platforms = pytest.mark.parametrize("name", list(KINDS))


def kept(switches: Switches) -> list[Path]:
    """Backups, the oldest first."""
    return backups.list_backups(switches.folder("sw1"))[::-1]


def refused(switches: Switches, file: Path) -> str:
    answer = switches.provision(["sw1"], restore=file)["sw1"]
    assert isinstance(answer, SwitchError), answer
    return str(answer)


def restored(switches: Switches, file: Path) -> Report:
    answer = switches.provision(["sw1"], restore=file)["sw1"]
    assert isinstance(answer, Report), answer
    return answer


@platforms
def test_a_community_that_was_changed_since_is_not_made_up(
    lab: Make, tmp_path: Path, name: str
) -> None:
    rig = lab(name)
    switches = fleet(rig, tmp_path)
    switches.provision()
    rotated = SECRETS | {"snmp_community": "NewRead3rs"}
    switches = replace(switches, sources=(rotated.get,))
    switches.provision()
    right = rig.settings()
    assert list(right.snmp_communities) == ["NewRead3rs"]
    old = next(path for path in kept(switches) if "community <hidden-" in path.read_text())

    lines = rig.look(lambda device: device.lines_entered)
    told = refused(switches, old)
    lost = re.findall(r"community (<hidden-\d>)", old.read_text())[0]
    assert f"`snmp-server community {lost}` in the backup {old}" in told
    assert "write `<snmp_community>` for it there" in told
    assert rig.look(lambda device: device.lines_entered) == lines
    assert rig.settings() == right

    old.write_text(old.read_text().replace(lost, "<snmp_community>"))
    assert restored(switches, old).result == "unchanged"
    assert rig.settings() == right


@platforms
def test_a_new_switch_returns_to_how_it_came_but_for_what_changes_need(
    lab: Make, tmp_path: Path, name: str
) -> None:
    rig = lab(name)
    factory = rig.settings()
    switches = fleet(rig, tmp_path)
    switches.provision()
    report = restored(switches, kept(switches)[0])
    assert report.result == "changed"
    now = rig.settings()
    assert now == rig.startup()
    assert (now.hostname, now.interfaces) == (factory.hostname, factory.interfaces)
    assert not now.snmp_communities
    if name == "cisco_ios":
        # Its VLANs stood in no configuration then, and stay as they can be seen now.
        assert (now.vtp, now.archive_path) == ("transparent", "flash:phonerack")
        assert now.vlans == {10: "phones", 20: "cameras"}
    else:
        assert now.vlans == factory.vlans
    assert restored(switches, kept(switches)[0]).result == "unchanged"


@platforms
def test_vlans_that_others_have_come_to_need_since_stay(
    lab: Make, tmp_path: Path, name: str
) -> None:
    rig = lab(name)
    rig.settle()
    reserved = rig.job("sw1").intent.ports[5].interface
    first = rig.job("sw1").intent.ports[0].interface
    rig.type(f"interface {first}\nno description")
    switches = fleet(rig, tmp_path)
    switches.provision()
    rig.type(f"vlan 40\nname door\ninterface {reserved}\nswitchport access vlan 40")
    restored(switches, kept(switches)[0])
    assert rig.settings().vlans[40] == "door"


@platforms
def test_a_switch_does_not_cut_its_own_address_off(lab: Make, tmp_path: Path, name: str) -> None:
    rig = lab(name)
    rig.settle()
    switches = fleet(rig, tmp_path)
    file = tmp_path / "old.cfg"
    with_vlan(rig, 10)
    provisioned = switches.provision()["sw1"]
    assert isinstance(provisioned, Report), provisioned
    ports = [port for port in rig.job("sw1").intent.ports if port.role != "reserved"]
    rig.type("\n".join(f"interface {port.interface}\nshutdown" for port in ports))
    file.write_text(running(rig))
    switches.provision()
    before = rig.settings()
    told = refused(switches, file)
    assert "its address 127.0.0.1 is in VLAN 10, which no port would carry" in told
    assert str(file) in told
    assert rig.settings() == before


@platforms
def test_a_torn_backup_is_told_of_by_its_name(lab: Make, tmp_path: Path, name: str) -> None:
    rig = lab(name)
    switches = fleet(rig, tmp_path)
    switches.provision()
    text = kept(switches)[-1].read_text()
    file = tmp_path / "torn.cfg"
    lines = rig.look(lambda device: device.lines_entered)
    for part in (text[: len(text) // 2].encode(), b"", b"\xff\xfe\x00"):
        file.write_bytes(part)
        told = refused(switches, file)
        assert f"the backup {file} cannot be read" in told
        assert "running configuration" not in told
        assert "--backups" in told
    assert rig.look(lambda device: device.lines_entered) == lines


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("hostname sw1", "hostname sw2"),
        ("interface GigabitEthernet1/0/1\n", "interface FastEthernet0/1\n"),
        ("end\n", "interface Vlan10\n ip address 10.0.0.3 255.255.255.0\nend\n"),
    ],
)
def test_the_backup_of_another_switch_is_not_taken(
    lab: Make, tmp_path: Path, line: str, instead: str
) -> None:
    rig = lab()
    switches = fleet(rig, tmp_path)
    switches.provision()
    here = switches.rack.switches["sw1"]
    two = {"sw1": here, "sw2": replace(here, name="sw2", address="10.0.0.3")}
    switches = replace(switches, rack=replace(switches.rack, switches=two))
    file = tmp_path / "its.cfg"
    file.write_text(kept(switches)[-1].read_text().replace(line, instead))
    before = rig.settings()
    told = refused(switches, file)
    assert f"the backup {file} is of " in told
    assert rig.settings() == before


def test_a_backup_that_lies_with_another_switch_is_not_taken(lab: Make, tmp_path: Path) -> None:
    rig = lab()
    switches = fleet(rig, tmp_path)
    switches.provision()
    two = {name: replace(switches.rack.switches["sw1"], name=name) for name in ("sw1", "sw2")}
    switches = replace(switches, rack=replace(switches.rack, switches=two))
    factory = kept(switches)[0]
    its = backups.keep(switches.folder("sw2"), factory.read_text())
    assert f"the backup {its} is of the switch sw2" in refused(switches, its)


def with_vlan(rig: Any, vlan: int) -> None:
    """Give the switch the address at which it is reached here, in one VLAN."""
    address = "127.0.0.1 255.0.0.0" if rig.devices["sw1"].kind == "ios" else "127.0.0.1/8"
    rig.type(f"interface Vlan{vlan}\nip address {address}\nno shutdown")


def running(rig: Any) -> str:
    from standin.switches.printed import configuration

    text: str = rig.look(lambda device: "\n".join(configuration(device, device.running, "running")))
    return rig.job("sw1").secrets.conceal(text) + "\n"  # type: ignore[no-any-return]
