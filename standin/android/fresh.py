"""The Android of a phone out of the box, and the one that enrolment leaves. Pure.

Apps of an enrolled phone are the stand-in's own APKs (`standin.android.apk`).
"""

from __future__ import annotations

from collections.abc import Mapping

from standin.android.state import ADDED_APPS, DUMP, TERMUX, AndroidState, App

SHARED_USER = "com.termux"
_BOXED: Mapping[str, Mapping[str, str]] = {
    "global": {
        "adb_enabled": "1",
        "airplane_mode_on": "0",
        "auto_time": "1",
        "captive_portal_mode": "1",
        "development_settings_enabled": "1",
        "mobile_data": "1",
        "protect_battery": "0",
        "stay_on_while_plugged_in": "0",
        "wifi_on": "1",
    },
    "system": {
        "screen_brightness": "128",
        "screen_brightness_mode": "1",
        "screen_off_timeout": "30000",
    },
    "secure": {"location_mode": "3"},
}


def boxed(api_level: int, abi: str, app_uid: int) -> AndroidState:
    """A phone as it comes out of the box, with developer options and USB debugging on.

    `app_uid` is the uid that the first app installed will get.
    """
    return AndroidState(
        api_level=api_level,
        abi=abi,
        settings={name: dict(values) for name, values in _BOXED.items()},
        next_uid=app_uid,
    )


def enrolled(
    api_level: int,
    abi: str,
    app_uid: int,
    *,
    wired: bool,
    time_server: str | None,
    signer: str,
    signature: str = "",
) -> AndroidState:
    """A phone as enrolment leaves it, on its hub, with Termux and its add-ons."""
    state = boxed(api_level, abi, app_uid)
    for key, value in {
        "captive_portal_mode": "0",
        "mobile_data": "0",
        "protect_battery": "1",
        "stay_on_while_plugged_in": "7",
        "verifier_verify_adb_installs": "0",
        "wifi_on": "0" if wired else "1",
    }.items():
        state.put_setting("global", key, value)
    if time_server:
        state.put_setting("global", "ntp_server", time_server)
    state.settings["system"] |= {"screen_brightness": "1", "screen_brightness_mode": "0"}
    if api_level >= 30:
        state.put_setting("global", "cached_apps_freezer", "disabled")
    if api_level == 31:
        state.config_sync_disabled = "persistent"
        state.device_config["activity_manager/max_phantom_processes"] = "2147483647"
    elif api_level > 31:
        state.put_setting("global", "settings_enable_monitor_phantom_procs", "false")
    state.doze_exempt = list(ADDED_APPS)
    for name in ADDED_APPS:
        state.apps[name] = App(
            118,
            "0.118",
            signer,
            app_uid,
            shared_user=SHARED_USER,
            opened=True,
            signature=signature,
        )
        if api_level >= 30:
            state.app_ops[name] = {"AUTO_REVOKE_PERMISSIONS_IF_UNUSED": "ignore"}
    state.apps[TERMUX].granted = [DUMP]
    state.app_ops.setdefault(TERMUX, {})["RUN_ANY_IN_BACKGROUND"] = "allow"
    state.next_uid = app_uid + 1
    state.lock_screen, state.keyguard, state.unlocked = "none", False, True
    state.usb = "hub"
    return state
