"""Faults as values: how they are written, and what is true of those that were recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleetctl.rack import InputError
from standin.engine import Container
from standin.faults import Fault, observed, parse_fault, read_faults, write_faults

RUNNING = Container("pr-r-phone001", "r", "phone001", "/r", "image", "running", 4711)
PAUSED = replace(RUNNING, state="paused")
DEAD = replace(RUNNING, state="dead", pid=0)


@pytest.mark.parametrize("text", ["kill", "hang", "unplug", "reboot", "slow=0.5"])
def test_a_fault_reads_as_it_is_written(text: str) -> None:
    assert str(parse_fault(text)) == text


@pytest.mark.parametrize("text", ["", "hot", "kill=1", "slow", "slow=", "slow=half", "Kill", "=1"])
def test_an_unknown_fault_is_answered_with_all_that_there_are(text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_fault(text)
    assert all(name in str(refused.value) for name in ("kill", "hang", "unplug", "slow=X"))


@pytest.mark.parametrize("speed", ["0", "1", "1.5", "-1", "nan", "inf", "0.001"])
def test_a_phone_can_only_be_slowed_down_and_not_stopped(speed: str) -> None:
    with pytest.raises(InputError, match="less than 1"):
        parse_fault(f"slow={speed}")


def test_a_frozen_phone_hangs_whoever_froze_it() -> None:
    assert observed({}, PAUSED, is_plugged=True) == {"hang": None}


def test_a_recorded_hang_that_is_over_does_not_show() -> None:
    assert observed({"hang": None, "slow": 0.5}, RUNNING, is_plugged=True) == {"slow": 0.5}


def test_a_phone_that_died_by_itself_has_no_fault_to_show() -> None:
    assert observed({}, DEAD, is_plugged=None) is None
    assert observed({"kill": None}, None, is_plugged=None) is None


def test_a_killed_phone_keeps_its_other_faults() -> None:
    found = observed({"kill": None, "unplug": None}, DEAD, is_plugged=None)
    assert found == {"kill": None, "unplug": None}


@pytest.mark.parametrize(("is_plugged", "faults"), [(False, {"unplug": None}), (True, {})])
def test_the_port_itself_says_whether_a_phone_is_unplugged(
    is_plugged: bool, faults: dict[str, None]
) -> None:
    assert observed({}, RUNNING, is_plugged) == faults
    assert observed({"unplug": None}, RUNNING, is_plugged) == faults


def test_recorded_faults_survive_and_healed_phones_leave_no_entry(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    assert read_faults(file) == {}
    write_faults(file, {"phone001": {"slow": 0.5, "unplug": None}, "phone002": {}})
    assert read_faults(file) == {"phone001": {"slow": 0.5, "unplug": None}}


def test_only_slow_has_a_speed() -> None:
    assert parse_fault("slow=0.25") == Fault("slow", 0.25)
    assert parse_fault("hang") == Fault("hang", None)
