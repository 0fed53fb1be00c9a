"""What enrolment recorded, merged into the rack."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from fleetctl.rack import RackError, RackPaths, load_rack
from fleetctl.rack.lock import Locked, write_lock

RACK = """\
rack: lab
network: {{cidr: 10.1.0.0/24, medium: ethernet, dhcp: {dhcp}, controller: 10.1.0.1}}
phones: [10.1.0.11-12]
"""
ENTRIES = {
    "phone001": Locked("R58M0001", "02:00:00:00:00:01", "10.1.0.111", 31),
    "phone002": Locked("0123e45", "02:00:00:00:00:02", "10.1.0.112", 28, adb_open=True),
}


@pytest.fixture
def rack_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    path = tmp_path / "rack.yml"
    path.write_text(RACK.format(dhcp="ours"))
    return path


def test_enrolment_adds_serial_mac_and_api_level(rack_file: Path) -> None:
    write_lock(rack_file.with_name("rack.lock.yml"), "lab", ENTRIES)
    phones = load_rack(rack_file).phones
    assert [(p.serial, p.mac, p.api_level) for p in phones.values()] == [
        ("R58M0001", "02:00:00:00:00:01", 31),
        ("0123e45", "02:00:00:00:00:02", 28),
    ]


@pytest.mark.parametrize(("dhcp", "address"), [("ours", "10.1.0.11"), ("theirs", "10.1.0.111")])
def test_the_recorded_address_counts_only_where_dhcp_is_theirs(
    rack_file: Path, dhcp: str, address: str
) -> None:
    rack_file.write_text(RACK.format(dhcp=dhcp))
    write_lock(rack_file.with_name("rack.lock.yml"), "lab", ENTRIES)
    assert load_rack(rack_file).phones["phone001"].address == address


def test_the_racks_own_folder_is_asked_when_no_lock_lies_beside(rack_file: Path) -> None:
    paths = RackPaths("lab")
    paths.ensure()
    write_lock(paths.lock_file, "lab", ENTRIES)
    assert load_rack(rack_file).phones["phone001"].serial == "R58M0001"
    write_lock(rack_file.with_name("rack.lock.yml"), "lab", {})
    assert load_rack(rack_file).phones["phone001"].serial is None


def test_two_phones_with_one_mac_are_refused_and_both_named(rack_file: Path) -> None:
    rack_file.with_name("rack.lock.yml").write_text(
        "rack: lab\nphones:\n"
        "  phone001: {mac: '02:00:00:00:00:AB'}\n"
        "  phone002: {mac: 0200.0000.00ab}\n"
    )
    with pytest.raises(RackError) as caught:
        load_rack(rack_file)
    assert "rack.lock.yml:4: mac 02:00:00:00:00:ab of phone002 is phone001's too" in str(
        caught.value
    )


def test_two_phones_with_one_serial_are_refused(rack_file: Path) -> None:
    entries = {name: Locked(serial="R58M0001") for name in ENTRIES}
    write_lock(rack_file.with_name("rack.lock.yml"), "lab", entries)
    with pytest.raises(RackError, match="serial R58M0001 of phone002 is phone001's too"):
        load_rack(rack_file)


def test_a_phone_that_left_the_rack_is_a_warning(rack_file: Path) -> None:
    write_lock(rack_file.with_name("rack.lock.yml"), "lab", {"phone009": Locked("R58M0009")})
    (warning,) = load_rack(rack_file).warnings
    assert "rack.lock.yml:5: phone009 is not in the rack file" in str(warning)


def test_the_lock_of_another_rack_is_refused(rack_file: Path) -> None:
    write_lock(rack_file.with_name("rack.lock.yml"), "other", {})
    with pytest.raises(RackError, match="is of rack `other`, not `lab`"):
        load_rack(rack_file)


def test_a_lock_of_a_newer_version_is_refused(rack_file: Path) -> None:
    rack_file.with_name("rack.lock.yml").write_text("rack: lab\nversion: 9\n")
    with pytest.raises(RackError, match=r"rack\.lock\.yml:2: version 9 is newer than 1"):
        load_rack(rack_file)


def test_the_racks_folders_are_their_owners_only(rack_file: Path) -> None:
    paths = RackPaths("lab")
    paths.ensure()
    for folder in (paths.dir, paths.ssh, paths.runs, paths.data, paths.releases, paths.packages):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_lock_that_cannot_be_written_leaves_the_old_one(
    rack_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = rack_file.with_name("rack.lock.yml")
    write_lock(lock, "lab", ENTRIES)
    before = lock.read_text()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_lock(lock, "lab", {})
    assert lock.read_text() == before
    assert sorted(path.name for path in rack_file.parent.iterdir()) == ["rack.lock.yml", "rack.yml"]
