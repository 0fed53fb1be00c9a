"""Android's tools without a phone: what each API level answers, what lasts, who may."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from standin.android import apk, dump, fresh, packages, values
from standin.android.binder import Call, Failed
from standin.android.state import AndroidState, read_state, write_state

SHELL, APP = 2000, 10_001
LEVELS = range(28, 36)

type Tool = Callable[[AndroidState, Call], Awaitable[int]]


def boxed(level: int = 31) -> AndroidState:
    return fresh.boxed(level, "x86_64", APP)


def enrolled(level: int = 31) -> AndroidState:
    return fresh.enrolled(level, "x86_64", APP, wired=True, time_server="10.0.0.2", signer="s")


def ask(tool: Tool, state: AndroidState, words: str, uid: int = SHELL) -> str:
    call = Call(tool.__name__, words.split(), uid)
    asyncio.run(tool(state, call))
    return call.output.decode().strip()


def test_a_setting_is_kept_under_its_namespace() -> None:
    state = boxed()
    ask(values.settings, state, "put system screen_brightness 1")
    assert ask(values.settings, state, "get system screen_brightness") == "1"
    assert ask(values.settings, state, "get global screen_brightness") == "null"
    assert ask(values.settings, state, "delete system screen_brightness") == "Deleted 1 rows"
    with pytest.raises(Failed, match="Invalid namespace 'nowhere'"):
        ask(values.settings, state, "get nowhere x")


@pytest.mark.parametrize("words", ["get global wifi_on", "put global wifi_on 1"])
def test_an_app_can_neither_read_nor_write_settings(words: str) -> None:
    with pytest.raises(Failed, match="Failed transaction"):
        ask(values.settings, boxed(), words, uid=APP)


def test_only_the_switch_of_wifi_switches_it() -> None:
    state = boxed()
    ask(values.svc, state, "wifi disable")
    assert state.setting("global", "wifi_on") == "0"
    with pytest.raises(Failed, match="Permission Denial"):
        ask(values.svc, state, "wifi enable", uid=APP)


@pytest.mark.parametrize("level", LEVELS)
def test_device_config_knows_what_its_android_knows(level: int) -> None:
    state = boxed(level)

    def answer(words: str) -> str:
        try:
            return ask(values.device_config, state, words)
        except Failed as problem:
            return str(problem)

    if level < 29:
        assert "not found" in answer("get activity_manager max_phantom_processes")
        return
    answer("put activity_manager max_phantom_processes 64")
    assert answer("get activity_manager max_phantom_processes") == "64"
    done = answer("set_sync_disabled_for_tests persistent")
    assert (done == "") == (level >= 31)
    assert (answer("is_sync_disabled_for_tests") == "true") == (level in (31, 32))
    assert (answer("get_sync_disabled_for_tests") == "persistent") == (level >= 33)


@pytest.mark.parametrize("level", LEVELS)
def test_children_are_limited_from_android_12_on_until_the_setting_is_made(level: int) -> None:
    out_of_the_box, after = boxed(level), enrolled(level)
    assert out_of_the_box.phantom_limit == (32 if level >= 31 else None)
    assert after.phantom_limit == (2147483647 if level == 31 else None)


def test_android_12_has_no_switch_for_its_phantom_monitor() -> None:
    state = boxed(31)
    ask(values.settings, state, "put global settings_enable_monitor_phantom_procs false")
    assert state.phantom_limit == 32


def test_flags_fall_back_at_a_reboot_unless_their_sync_is_off_for_good() -> None:
    state = boxed(31)
    ask(values.device_config, state, "put activity_manager max_phantom_processes 64")
    state.boots("second")
    assert state.phantom_limit == 32
    ask(values.device_config, state, "set_sync_disabled_for_tests persistent")
    ask(values.device_config, state, "put activity_manager max_phantom_processes 64")
    state.boots("third")
    assert state.phantom_limit == 64


def test_a_reboot_locks_the_screen_and_closes_adb_on_the_network() -> None:
    state = boxed()
    state.keyguard, state.adb_tcp_port, state.wake_locks = False, 5555, ["x"]
    state.boots("second")
    assert state.screen_locked
    assert (state.adb_tcp_port, state.wake_locks) == (0, [])
    state.boots("second")
    after = enrolled()
    after.boots("second")
    assert not after.screen_locked


def test_doze_leaves_alone_what_is_installed_and_asked_for() -> None:
    state = enrolled()
    state.doze_exempt = []
    assert ask(values.deviceidle, state, "whitelist +com.termux") == "Added: com.termux"
    assert ask(values.deviceidle, state, "whitelist +com.none") == "Unknown package: com.none"
    assert f"user,com.termux,{APP}" in ask(values.deviceidle, state, "whitelist").splitlines()


def test_app_ops_of_later_androids_are_unknown() -> None:
    words = "set com.termux AUTO_REVOKE_PERMISSIONS_IF_UNUSED ignore"
    with pytest.raises(Failed, match="Unknown operation string"):
        ask(values.appops, enrolled(29), words)
    ask(values.appops, state := enrolled(30), words)
    said = ask(values.appops, state, "get com.termux AUTO_REVOKE_PERMISSIONS_IF_UNUSED")
    assert said == "AUTO_REVOKE_PERMISSIONS_IF_UNUSED: ignore"


def test_a_lock_screen_goes_by_command_only_while_no_pin_secures_it() -> None:
    state = boxed()
    ask(values.locksettings, state, "set-disabled true")
    assert ask(values.locksettings, state, "get-disabled") == "true"
    state.lock_screen = "pin"
    with pytest.raises(Failed, match="Old password"):
        ask(values.locksettings, state, "set-disabled true")


def test_dumpsys_is_not_for_apps(tmp_path: Path) -> None:
    (tmp_path / "dumpsys_battery.txt").write_text("  level: 80\n")

    def dumpsys(uid: int, words: str) -> str:
        call = Call("dumpsys", words.split(), uid)
        asyncio.run(dump.dumpsys(boxed(), call, tmp_path))
        return call.output.decode()

    assert "level: 80" in dumpsys(SHELL, "battery")
    assert "Permission Denial" in dumpsys(APP, "battery")
    assert "max_phantom_processes=32" in dumpsys(SHELL, "activity settings")
    assert "Can't find service" in dumpsys(SHELL, "../state")


def dumped(state: AndroidState, folder: Path, words: str, uid: int = APP) -> str:
    call = Call("dumpsys", words.split(), uid)
    asyncio.run(dump.dumpsys(state, call, folder))
    return call.output.decode()


def test_an_app_reads_dumpsys_once_adb_has_granted_it_that(tmp_path: Path) -> None:
    """Granted is only what the app's manifest asks for; an update of the app leaves it."""
    (tmp_path / "dumpsys_thermalservice.txt").write_text("HAL Ready: true\n")
    state = boxed()
    packages.enter(state, "com.termux", packages.decide(state, content("com.termux"), []))
    assert "Permission Denial" in dumped(state, tmp_path, "thermalservice")
    with pytest.raises(Failed, match="has not requested permission"):
        packages.grant(state, "grant", "com.termux", "android.permission.REBOOT")
    with pytest.raises(Failed, match="Unknown package"):
        packages.grant(state, "grant", "com.none", "android.permission.DUMP")
    packages.grant(state, "grant", "com.termux", "android.permission.DUMP")
    packages.enter(state, "com.termux", packages.decide(state, content("com.termux"), ["-r"]))
    assert "HAL Ready: true" in dumped(state, tmp_path, "thermalservice")
    assert "DUMP: granted=true" in dumped(state, tmp_path, "package com.termux")
    assert "Permission Denial" in dumped(state, tmp_path, "thermalservice", uid=APP + 1)
    packages.grant(state, "revoke", "com.termux", "android.permission.DUMP")
    assert "Permission Denial" in dumped(state, tmp_path, "thermalservice")


def test_android_9_has_no_thermal_service_that_tells(tmp_path: Path) -> None:
    (tmp_path / "dumpsys_thermalservice.txt").write_text("HAL Ready: true\n")
    assert "HAL" not in dumped(enrolled(28), tmp_path, "thermalservice", uid=SHELL)


def test_the_state_is_the_same_after_it_was_put_down(tmp_path: Path) -> None:
    state = enrolled(33)
    state.adb_keys.append("AAAA key")
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    with pytest.raises(ValueError, match="not of version"):
        AndroidState.from_json('{"version": 99}')


def content(package: str, signer: str = "s", code: int = 1) -> apk.Content:
    return apk.Content(package, code, "1", signer=signer)


def test_apps_of_one_shared_user_have_one_uid_and_one_signer() -> None:
    state = boxed()
    for package in ("com.termux", "com.termux.api"):
        packages.enter(state, package, packages.decide(state, content(package), []))
    assert {app.uid for app in state.apps.values()} == {APP}
    with pytest.raises(Failed, match="INSTALL_FAILED_SHARED_USER_INCOMPATIBLE"):
        packages.decide(state, content("com.termux.boot", signer="another"), [])
    with pytest.raises(Failed, match="INSTALL_FAILED_UPDATE_INCOMPATIBLE"):
        packages.decide(state, content("com.termux", signer="another"), [])
    with pytest.raises(Failed, match="INSTALL_FAILED_VERSION_DOWNGRADE"):
        packages.decide(state, content("com.termux", code=0), ["-r"])


def test_an_app_that_is_installed_anew_is_another_user() -> None:
    state = boxed()
    packages.enter(state, "com.termux", packages.decide(state, content("com.termux"), []))
    packages.forget(state, "com.termux")
    assert packages.decide(state, content("com.termux"), []).uid == APP + 1


def test_a_real_app_has_no_code_for_a_stand_in() -> None:
    with pytest.raises(Failed, match="INSTALL_FAILED_NO_MATCHING_ABIS"):
        packages.content_of(b"PK\3\4 whatever")
    with pytest.raises(Failed, match="INSTALL_PARSE_FAILED_NOT_APK"):
        packages.content_of(b"no package")


def test_a_package_says_what_is_in_it_and_equal_ones_are_equal(tmp_path: Path) -> None:
    signer = apk.load_signer(tmp_path / "termux.pem")
    made = apk.standin_apps(debuggable=True)["com.termux_debug.apk"]
    again = apk.load_signer(tmp_path / "termux.pem")
    read = apk.read(apk.build(made, signer))
    assert read == apk.read(apk.build(made, again))
    assert (read.package, read.debuggable, read.signer) == ("com.termux", True, signer.digest)
