"""Faults as values: how they are written, and what is true of those that were recorded."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from fleetctl.rack import InputError
from standin.engine import Container
from standin.fabric import check_rate, degraded_rate
from standin.faults import (
    Fault,
    FaultFile,
    Faults,
    exchanges,
    link_mbits,
    observed,
    parse_fault,
    read_faults,
    write_faults,
)
from standin.flapping import is_down

RUNNING = Container("pr-r-phone001", "r", "phone001", "/r", "image", "running", 4711)
PAUSED = replace(RUNNING, state="paused")
DEAD = replace(RUNNING, state="dead", pid=0)


@pytest.mark.parametrize(
    "text",
    [
        *("kill", "hang", "unplug", "reboot", "slow=0.5", "hot", "100mbit", "300mbit", "hub-lies"),
        *(
            "flap=20s",
            "syn-loss=3%",
            "syn-loss=0.5%",
            "disk-full",
            "disk-full=200m",
            "disk-full=5k",
        ),
        *("clock=+90s", "clock=-7200s", "clock=1970", "battery-hang", "battery-hang=1in15"),
        *("battery-hang=ssh", "swap-port=phone008"),
    ],
)
def test_a_fault_reads_as_it_is_written(text: str) -> None:
    assert str(parse_fault(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "melt", "kill=1", "slow", "slow=", "slow=half", "Kill", "=1", "clock", "flap="),
        *("hot=50", "syn-loss=much", "swap-port"),
    ],
)
def test_an_unknown_fault_is_answered_with_all_that_there_are(text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_fault(text)
    assert all(name in str(refused.value) for name in ("kill", "hang", "unplug", "slow=X"))


@pytest.mark.parametrize("speed", ["0", "1", "1.5", "-1", "nan", "inf", "0.001"])
def test_a_phone_can_only_be_slowed_down_and_not_stopped(speed: str) -> None:
    with pytest.raises(InputError, match="less than 1"):
        parse_fault(f"slow={speed}")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("clock=90", "offset such as"),
        ("clock=1971", "offset such as"),
        ("syn-loss=0%", "more than 0"),
        ("syn-loss=101%", "at most 100"),
        ("flap=1s", "2 to 3600"),
        ("disk-full=lots", "4m or 1g"),
        ("battery-hang=often", "1in15"),
    ],
)
def test_a_value_out_of_range_is_told_with_its_range(text: str, hint: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_fault(text)
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("text", "same"),
    [("clock=+1.5m", "clock=+90s"), ("disk-full=0", "disk-full"), ("flap=20", "flap=20s")],
)
def test_a_value_has_one_form(text: str, same: str) -> None:
    assert str(parse_fault(text)) == same


def test_a_flapping_link_that_is_down_just_now_is_not_unplugged() -> None:
    assert observed({"flap": 20.0}, RUNNING, is_plugged=False) == {"flap": 20.0}
    both: Faults = {"flap": 20.0, "unplug": None}
    assert observed(both, RUNNING, is_plugged=False) == both


def test_a_link_flaps_once_a_period_and_for_less_than_half_of_it() -> None:
    down = [is_down(20.0, tenth / 10) for tenth in range(400)]
    assert sum(down) == 60
    assert sum(now and not before for before, now in itertools.pairwise(down)) == 2
    assert sum(is_down(2.0, tenth / 10) for tenth in range(20)) == 10


@pytest.mark.parametrize(
    ("rate", "degraded"),
    [(None, "100mbit"), ("1gbit", "100000kbit"), ("200mbit", "20000kbit"), ("2.5mbit", "250kbit")],
)
def test_a_degraded_link_keeps_its_part_of_the_racks_rate(rate: str | None, degraded: str) -> None:
    assert degraded_rate(rate, 100) == degraded
    assert check_rate(degraded)


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


def test_who_looks_often_reads_only_what_has_changed(tmp_path: Path) -> None:
    file = FaultFile(tmp_path / "faults.json")
    assert not file.changed()
    write_faults(tmp_path / "faults.json", {"phone001": {"slow": 0.5}})
    assert file.changed()
    assert file.faults == {"phone001": {"slow": 0.5}}
    assert not file.changed()


def test_phones_in_each_others_port_are_one_exchange() -> None:
    faults: dict[str, Faults] = {
        "phone002": {"swap-port": "phone001", "100mbit": None},
        "phone001": {"swap-port": "phone002"},
        "phone003": {"unplug": None},
    }
    assert exchanges(faults) == [("phone001", "phone002")]
    assert exchanges({}) == []
    assert [link_mbits(kinds) for kinds in faults.values()] == [100, 1000, 1000]
