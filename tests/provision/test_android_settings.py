"""What a rack wants of Android, and how what Android prints is understood."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept_settings import kept

from fleetctl.provision.android import (
    WIFI_OFF,
    Outcome,
    Profile,
    Wish,
    before_apps,
    get_command,
    set_command,
    understand,
    wishes,
)
from standin.android import fresh

LEVELS = range(28, 36)


def profile(level: int, **more: object) -> Profile:
    return Profile(level, "samsung", "10.0.0.2", True, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", LEVELS)
def test_enrolled_stand_ins_come_as_enrolment_leaves_a_phone(level: int) -> None:
    state = fresh.enrolled(level, "x86_64", 1, wired=True, time_server="10.0.0.2", signer="s")
    for wish in wishes(profile(level, wired=True)):
        assert kept(state, wish) == wish.value, wish.name


@pytest.mark.parametrize("level", LEVELS)
def test_a_phone_out_of_the_box_has_none_of_it(level: int) -> None:
    state = fresh.boxed(level, "x86_64", 1)
    same = {wish.name for wish in wishes(profile(level)) if kept(state, wish) == wish.value}
    assert same == set()


@pytest.mark.parametrize("level", LEVELS)
def test_the_phantom_limit_is_lifted_the_way_its_android_knows(level: int) -> None:
    names = [wish.name for wish in wishes(profile(level)) if "phantom" in wish.why]
    if level < 31:
        assert names == []
    elif level == 31:
        assert names[0] == "config_sync/disabled"
        assert "max_phantom_processes" in names[1]
    else:
        assert names == ["global/settings_enable_monitor_phantom_procs"]


def test_wifi_goes_only_when_the_wire_has_been_proven() -> None:
    assert WIFI_OFF not in wishes(profile(31))
    assert wishes(profile(31, wired=True))[-1] == WIFI_OFF


def test_a_phone_asks_the_services_host_for_the_time_only_where_it_serves_it() -> None:
    def wish(serves_time: bool) -> Wish:
        found = wishes(Profile(31, "Google", "10.0.0.2", serves_time))
        (time,) = [wish for wish in found if wish.name == "global/ntp_server"]
        return time

    assert wish(True).value == "10.0.0.2"
    assert wish(True).differs("null")
    assert not wish(True).differs("10.0.0.2")
    # What was set by us goes, what somebody else has set stays.
    assert wish(False).differs("10.0.0.2")
    assert not wish(False).differs("pool.ntp.org")
    assert not wish(False).differs("null")
    assert set_command(wish(False).name, wish(False).value) == "settings delete global ntp_server"


def test_the_charge_limit_is_asked_of_samsungs_only() -> None:
    names = [wish.name for wish in wishes(Profile(31, "Google"))]
    assert "global/protect_battery" not in names


def test_what_is_set_before_the_apps_does_not_need_them() -> None:
    assert not [wish for wish in before_apps(wishes(profile(33))) if "com.termux" in wish.name]


@pytest.mark.parametrize(
    ("name", "said", "value"),
    [
        ("global/x", "7\n", "7"),
        ("global/x", "null\n", "null"),
        ("radio/wifi", "3\n", "off"),
        ("radio/wifi", "2\n", "on"),
        ("config_sync/disabled", "true\n", "persistent"),
        ("config_sync/disabled", "Invalid command: get_sync…\nfalse\n", None),
        ("device_config/a/b", "/system/bin/sh: device_config: not found\n", None),
        ("doze/com.termux", "user,com.termux,10123\n", "exempt"),
        ("doze/com.termux", "none\n", "optimised"),
        ("app_op/p/OP", "OP: ignore; time=+1d ago\n", "ignore"),
        ("app_op/p/OP", "Uid mode: OP: allow\n", "allow"),
        ("app_op/p/OP", "No operations.\n", "default"),
        ("app_op/p/OP", "Error: Unknown operation string: OP\n", None),
        ("lock_screen/disabled", "", None),
        ("permission/p/android.X", "      android.X: granted=true\n", "granted"),
        ("permission/p/android.X", "      android.X: granted=false\n", "denied"),
        ("permission/p/android.X", "none\n", "denied"),
    ],
)
def test_androids_answer_is_understood(name: str, said: str, value: str | None) -> None:
    assert understand(name, said) == value


@given(st.text(max_size=200))
def test_whatever_android_prints_is_a_value_or_unreadable(said: str) -> None:
    for wish in wishes(profile(33, wired=True)):
        value = understand(wish.name, said)
        assert value is None or value


@pytest.mark.parametrize("level", LEVELS)
def test_a_value_never_becomes_a_command(level: int) -> None:
    evil = "x; reboot"
    assert "'x; reboot'" in set_command("global/ntp_server", evil)
    for wish in wishes(profile(level, wired=True)):
        assert get_command(wish.name)
        assert set_command(wish.name, wish.value)


def test_what_changed_is_what_differs() -> None:
    outcome = Outcome({"a": "1", "b": None}, {"a": "1", "b": "2"})
    assert outcome.changed == ["b"]
