"""What a rack wants of Android, and how what Android prints is understood."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from standin.android.state import AndroidState

LEVELS = range(28, 36)


def profile(level: int, **more: object) -> Profile:
    return Profile(level, "samsung", "10.0.0.2", **more)  # type: ignore[arg-type]


def kept(state: AndroidState, wish: Wish) -> str | None:
    """The value that a stand-in's Android has of this setting."""
    key = wish.key
    if wish.namespace == "app_op":
        package, op = key.split("/")
        return state.app_ops.get(package, {}).get(op)
    if wish.namespace == "permission":
        package, permission = key.split("/")
        app = state.apps.get(package)
        return "granted" if app and permission in app.granted else "denied"
    if wish.namespace == "radio":
        name = {"wifi": "wifi_on", "data": "mobile_data"}[key]
        return {"0": "off", "1": "on"}[state.setting("global", name) or ""]
    return {
        "device_config": lambda: state.device_config.get(key),
        "config_sync": lambda: state.config_sync_disabled,
        "doze": lambda: "exempt" if key in state.doze_exempt else "optimised",
        "lock_screen": lambda: str(state.lock_screen == "none").lower(),
    }.get(wish.namespace, lambda: state.setting(wish.namespace, key))()


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
