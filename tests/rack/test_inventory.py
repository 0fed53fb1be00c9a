"""The inventory plugin: Ansible sees the rack as fleetctl does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetctl.rack import RackPaths, load_rack
from fleetctl.rack.lock import Locked, write_lock
from fleetctl.state import State

PROJECT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
SHIPPED = [PROJECT / "inventory/standin.yml", *sorted((PROJECT / "examples/racks").glob("*.yml"))]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANSIBLE_CONFIG", str(PROJECT / "ansible.cfg"))
    return tmp_path / "home"


def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / program, *arguments], cwd=PROJECT, text=True, capture_output=True, env=os.environ
    )


def inventory(path: Path) -> dict[str, Any]:
    done = run("ansible-inventory", "-i", path, "--list")
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr.replace("phones on Wi-Fi", "")
    listed: dict[str, Any] = json.loads(done.stdout)
    return listed


def members(listed: dict[str, Any], group: str) -> list[str]:
    hosts: list[str] = listed.get(group, {}).get("hosts", [])
    return hosts


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_ansible_check_and_status_agree_on_every_shipped_rack(path: Path) -> None:
    listed = inventory(path)
    checked = json.loads(run("fleetctl", "--rack", path, "check", "rack", "-o", "json").stdout)
    status = json.loads(run("fleetctl", "--rack", path, "status", "-o", "json").stdout)["phones"]

    assert checked["rack"] == listed["_meta"]["hostvars"]["controller"]["rack_name"]
    assert listed["_meta"]["hostvars"]["controller"]["rack_file"] == str(path)
    for group, names in checked["groups"].items():
        assert sorted(members(listed, group)) == sorted(names), group
        if group != "phones":
            shown = {
                phone["name"] for phone in status if group in (phone["switch"], phone["group"])
            }
            assert shown == set(names), group
    assert [phone["name"] for phone in status] == checked["groups"]["phones"]
    for phone in status:
        assert listed["_meta"]["hostvars"][phone["name"]]["ansible_host"] == phone["address"]
    ring = listed["_meta"]["hostvars"]["controller"]["rack_ring"]
    assert [phone["name"] for phone in ring] == checked["ring"]


def test_the_shipped_stand_in_rack_is_six_phones_on_two_switches() -> None:
    listed = inventory(PROJECT / "inventory/standin.yml")
    assert members(listed, "sw1") == ["phone001", "phone002", "phone003"]
    assert members(listed, "sw2") == ["phone004", "phone005", "phone006"]
    assert members(listed, "monitoring") == ["services"]
    assert listed["_meta"]["hostvars"]["controller"]["ansible_connection"] == "local"
    assert listed["_meta"]["hostvars"]["services"]["ansible_host"] == "10.138.0.2"


def test_drains_are_a_group_and_enrolment_is_variables(home: Path) -> None:
    paths = RackPaths("standin", home)
    paths.ensure()
    write_lock(paths.lock_file, "standin", {"phone002": Locked(mac="02:00:00:00:00:02")})
    with State(paths.state_db) as state:
        state.drain(["phone005"], "ann", "screen broken")
    listed = inventory(PROJECT / "inventory/standin.yml")
    assert members(listed, "drained") == ["phone005"]
    assert listed["_meta"]["hostvars"]["phone002"]["phone_mac"] == "02:00:00:00:00:02"


def test_phones_that_work_for_a_run_are_a_group_and_say_which(home: Path) -> None:
    paths = RackPaths("standin", home)
    paths.ensure()
    with State(paths.state_db) as state:
        state.allocate("digits-7", ["phone002", "phone003"])
    listed = inventory(PROJECT / "inventory/standin.yml")
    assert members(listed, "busy") == ["phone002", "phone003"]
    assert listed["_meta"]["hostvars"]["phone003"]["phone_run"] == "digits-7"
    assert "phone_run" not in listed["_meta"]["hostvars"]["phone001"]


def test_a_place_without_a_phone_is_in_no_list_that_phones_are_given(home: Path) -> None:
    paths = RackPaths("standin", home)
    paths.ensure()
    names = [f"phone{number:03}" for number in range(1, 7)]
    # Known by its entry in the lock file, or by its host key alone.
    entries = {name: Locked(serial=f"R58M{name}") for name in names if name not in names[1:3]}
    write_lock(paths.lock_file, "standin", entries)
    paths.known_hosts.write_text("@revoked * ssh-ed25519 AAAA\nphone002 ssh-ed25519 AAAA\n")
    listed = inventory(PROJECT / "inventory/standin.yml")
    there = [name for name in names if name != "phone003"]
    assert members(listed, "phones") == there
    assert members(listed, "empty") == ["phone003"]
    assert members(listed, "sw1") == ["phone001", "phone002"]
    variables = listed["_meta"]["hostvars"]["controller"]
    assert [phone["name"] for phone in variables["rack_phones"]] == there
    assert [phone["name"] for phone in variables["rack_ring"]] == there


def test_a_run_that_is_limited_to_an_empty_place_is_no_success(home: Path) -> None:
    paths = RackPaths("standin", home)
    paths.ensure()
    entries = {f"phone{number:03}": Locked(serial=f"R58M{number}") for number in range(1, 6)}
    write_lock(paths.lock_file, "standin", entries)
    playbook = (PROJECT / "playbooks/validate.yml", "-i", PROJECT / "inventory/standin.yml")

    refused = run("ansible-playbook", *playbook, "-l", "phone006")

    assert refused.returncode == 2
    said = " ".join(refused.stdout.split())
    assert "no phone is in the place phone006 of the rack file" in said


def test_reading_the_inventory_leaves_nothing_behind(home: Path) -> None:
    inventory(PROJECT / "inventory/standin.yml")
    assert not home.exists()


def test_a_lock_file_in_the_inventory_folder_is_no_inventory(tmp_path: Path) -> None:
    folder = tmp_path / "inventory"
    folder.mkdir()
    text = (PROJECT / "examples/racks/wifi-2.yml").read_text()
    (folder / "rack.yml").write_text(text)
    write_lock(folder / "rack.lock.yml", "home", {"phone001": Locked(serial="R58M0001")})
    listed = inventory(folder / "rack.yml")
    assert members(listed, "phones") + members(listed, "empty") == ["phone001", "phone002"]
    done = run("ansible-inventory", "-i", folder / "rack.lock.yml", "--list")
    assert done.returncode != 0


def test_a_mistake_stops_ansible_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "rack.yml"
    path.write_text(
        "rack: home\n"
        "network: {cidr: 192.168.1.0/24, medium: wifi}\n"
        "phones: [192.168.1.20, 192.168.1.20]\n"
    )
    wanted = f"{path}:3: address 192.168.1.20 of phone002 belongs to phone001 already"
    ansible = run("ansible-inventory", "-i", path, "--list")
    assert ansible.returncode != 0
    assert wanted in " ".join(ansible.stderr.split())
    check = run("fleetctl", "--rack", path, "check", "rack")
    assert (check.returncode, wanted in check.stderr) == (2, True)


def test_paper_rack_takes_about_forty_lines_and_wifi_rack_three() -> None:
    racks = PROJECT / "examples/racks"
    assert len(load_rack(racks / "paper-138.yml").phones) == 138
    assert len((racks / "paper-138.yml").read_text().splitlines()) <= 45
    assert len((racks / "wifi-2.yml").read_text().splitlines()) == 3
