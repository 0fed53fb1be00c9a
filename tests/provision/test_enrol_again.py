"""A phone that is enrolled, and by name enrolled again: `fleetctl enroll --serial`."""

from __future__ import annotations

from pathlib import Path

import pytest
from enrol_bench import Phone, Table, public_key

from fleetctl.state import State

ONE_GIB_KIB = 1 << 20


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Table:
    made = Table(tmp_path, monkeypatch, [Phone("R1", public_key(1))])
    assert made.enroll()["R1"].end == "enrolled"
    return made


def test_a_small_phone_that_holds_torch_and_data_is_fit_for_it(table: Table) -> None:
    table.phones[0].free_kib = ONE_GIB_KIB
    assert table.enroll("R1")["R1"].end == "enrolled"


def test_one_that_is_full_is_told_to_make_room_and_not_to_be_reset(table: Table) -> None:
    table.phones[0].free_kib = ONE_GIB_KIB // 4
    report = table.enroll("R1")["R1"]
    assert report.end == "refused"
    assert "0.2 GiB of free storage, and it takes 0.5 GiB" in report.reason
    assert "delete what is on it" in report.reason
    assert "reset" not in report.reason


def test_a_new_phone_in_the_place_needs_all_the_room(table: Table) -> None:
    table.phones = [Phone("R2", public_key(2), free_kib=ONE_GIB_KIB)]
    report = table.enroll("R2", replace="phone001")["R2"]
    assert report.end == "refused"
    assert "it takes 4.0 GiB" in report.reason


def test_a_phone_that_works_for_a_run_is_left_alone(table: Table) -> None:
    """Its Termux would be stopped, and all that runs in it."""
    with State(table.paths.state_db) as state:
        state.allocate("run-1", ["phone001"])
    table.phones.append(Phone("R2", public_key(2), place="usb:2"))
    reports = table.enroll("R1", "R2")
    assert reports["R1"].end == "refused"
    assert "run-1" in reports["R1"].reason
    assert "fleetctl stop run-1" in reports["R1"].reason
    assert table.phones[0].set_up == 1
    assert reports["R2"].end == "enrolled"
