"""Phones of a stand-in rack that move, leave, and are followed by others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from which_rack import SUBNET

if TYPE_CHECKING:
    from conftest import RackUnderTest

pytestmark = [pytest.mark.standin, pytest.mark.soak, pytest.mark.timeout(3600)]


def host_file(rack: RackUnderTest, phone: str) -> list[str]:
    config = str(rack.folder / "ssh_config")
    said = rack.run("ssh", "-F", config, phone, "cat phonerack/hostfile").stdout
    return re.findall(rf"^{re.escape(SUBNET)}\.(\d+) slots", said, re.MULTILINE)


def test_a_phone_in_another_port_has_another_place_in_the_ring(
    provisioned_rack: RackUnderTest, tmp_path: Path
) -> None:
    rack, moved = provisioned_rack, tmp_path / "moved.yml"
    text = rack.file.read_text()
    assert host_file(rack, "phone001") == ["11", "12", "13", "14", "15", "16"]
    # The first three change with the last three.
    moved.write_text(
        re.sub(r"switch: sw([12])", lambda found: f"switch: sw{3 - int(found[1])}", text)
    )
    tags = ("site.yml", "-t", "openmpi", "-l", "phone001")
    try:
        rack.run("ansible-playbook", "-i", str(moved), *tags)

        assert host_file(rack, "phone001") == ["14", "15", "16", "11", "12", "13"]
        checked = rack.fleetctl("--rack", str(moved), "check", "phone[001-002]").stdout
        warned = [line for line in checked.splitlines() if "not in the order" in line]
        assert len(warned) == 1
        assert "phone002" in warned[0]
        assert "phone001" not in warned[0]
    finally:
        rack.playbook("-t", "openmpi", "-l", "phone001")


def test_a_phone_leaves_and_another_comes_in_its_place(provisioned_rack: RackUnderTest) -> None:
    rack = provisioned_rack
    retire = ("ansible-playbook", "-i", str(rack.file), "playbooks/retire.yml", "-l", "phone006")
    lock = rack.folder / "rack.lock.yml"
    try:
        said = rack.run(*retire, timeout=900)

        assert "phone006 is wiped, its keys are revoked, its place is free" in said.stdout
        assert "phone006" not in lock.read_text()
        for phone in ("phone001", "phone005"):
            assert host_file(rack, phone) == ["11", "12", "13", "14", "15"]
        found = rack.podman(
            "phone006", "/system/bin/busybox", "find", "/data", "-name", "phonerack*"
        )
        assert found.stdout == ""
        # It is no phone any more: nothing of it is left to be retired.
        assert "empty place" in rack.run(*retire).stdout
    finally:
        # As after a walk with a new phone: another key in the same place.
        rack.fleetctl("standin", "up")
        rack.playbook()

    assert host_file(rack, "phone001") == ["11", "12", "13", "14", "15", "16"]
    states = {one["name"]: one["state"] for one in rack.fleetctl_json("status")["phones"]}
    assert "lost" not in states.values()
    assert len((rack.folder / "ssh/revoked").read_text().splitlines()) >= 3


def test_a_dead_phone_leaves_with_an_error_about_its_data(provisioned_rack: RackUnderTest) -> None:
    rack = provisioned_rack
    rack.fleetctl("standin", "fault", "phone006", "kill")
    try:
        said = rack.run(
            *("ansible-playbook", "-i", str(rack.file), "playbooks/retire.yml", "-l", "phone006"),
            check=False,
            timeout=900,
        )

        assert said.returncode == 2
        told = " ".join(said.stdout.split())
        assert (
            "phone006 has left the rack and its keys are revoked, but its data is not wiped" in told
        )
        assert host_file(rack, "phone001") == ["11", "12", "13", "14", "15"]
    finally:
        rack.fleetctl("standin", "heal", "phone006")
        rack.fleetctl("standin", "up")
        rack.playbook()


def test_the_operators_key_and_the_authority_can_be_changed(
    provisioned_rack: RackUnderTest,
) -> None:
    rack, ssh = provisioned_rack, provisioned_rack.folder / "ssh"
    before = {name: (ssh / name).read_text() for name in ("operator.pub", "ca.pub")}

    # Kept connections would hide that somebody is locked out.
    anew = ("-e", "ansible_control_path=none")
    rotate = ("ansible-playbook", "-i", str(rack.file), "playbooks/rotate.yml", *anew)
    rack.run(*rotate)
    for name in ("ca", "ca.pub"):
        (ssh / name).rename(ssh / f"{name}.before")
    refused = rack.playbook("-t", "controller,ssh", *anew, check=False)
    assert refused.returncode != 0
    assert "a new authority would lock you out of phone001" in refused.stdout
    assert not (ssh / "ca").exists()
    for name in ("ca", "ca.pub"):
        (ssh / f"{name}.before").rename(ssh / name)
    rack.playbook("-t", "ssh", *anew)
    rack.fleetctl("status")
    for name in ("ca", "ca.pub"):
        (ssh / name).unlink()
    rack.playbook("-t", "controller", *anew)
    locked_out = rack.run(*rotate, check=False)
    assert locked_out.returncode != 0
    assert "site.yml -t controller,ssh` first" in " ".join(locked_out.stdout.split())
    rack.playbook("-t", "controller,ssh", *anew)

    assert {name for name in before if (ssh / name).read_text() == before[name]} == set()
    keys = rack.podman(
        "phone004",
        "/system/bin/busybox",
        "cat",
        "/data/data/com.termux/files/home/.ssh/authorized_keys",
    ).stdout
    assert keys.split()[:2] == (ssh / "operator.pub").read_text().split()[:2]
    assert before["operator.pub"].split()[1] in (ssh / "revoked").read_text()
    config = str(rack.folder / "ssh_config")
    assert rack.run("ssh", "-F", config, "services", "true").returncode == 0
    # Phones that were away before are suspect until somebody has looked; one without the list of
    # revoked keys stays so.
    rack.fleetctl("check")
    states = {one["name"]: one["state"] for one in rack.fleetctl_json("status")["phones"]}
    assert set(states.values()) == {"ready"}
