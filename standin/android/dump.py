"""`dumpsys`: what Android's services tell of themselves, as far as a rack reads it."""

from __future__ import annotations

import os
from pathlib import Path

from standin.android import values
from standin.android.binder import Call
from standin.android.state import DUMP, PHANTOM_LIMIT, AndroidState


async def dumpsys(state: AndroidState, call: Call, folder: Path) -> int:
    """dumpsys SERVICE [ARGUMENT…]; for root, adb's shell user, and apps that were granted DUMP."""
    service = call.word(0)
    if call.is_app and not state.may(call.uid, DUMP):
        await call.say(
            f"Permission Denial: can't dump {service} from pid={call.pid}, uid={call.uid} due to "
            "missing android.permission.DUMP permission\n"
        )
        return 0
    call.words = call.words[1:]
    if service == "deviceidle":
        return await values.deviceidle(state, call)
    texts = {
        "activity": _activity,
        "package": _package,
        "power": _power,
        "window": _window,
    }
    kept = folder / f"dumpsys_{os.path.basename(service)}.txt"  # noqa: PTH119
    if service in texts:
        await call.say(texts[service](state, call.word(0)))
    elif kept.exists() and (service != "thermalservice" or state.api_level >= 29):
        await call.say(kept.read_bytes())
    else:
        await call.say(f"Can't find service: {service}\n", error=True)
    return 0


def _activity(state: AndroidState, what: str) -> str:
    if what == "settings":
        text = "ACTIVITY MANAGER SETTINGS (dumpsys activity settings) activity_manager_constants:\n"
        text += "  max_cached_processes=32\n"
        if state.api_level >= 31:
            key = "activity_manager/max_phantom_processes"
            text += f"  max_phantom_processes={state.device_config.get(key, PHANTOM_LIMIT)}\n"
        return text
    name = "mResumedActivity:" if state.api_level < 31 else "topResumedActivity="
    shown = state.foreground if state.awake and not state.keyguard else ""
    activity = shown or "com.android.launcher3/.Launcher"
    return (
        "ACTIVITY MANAGER ACTIVITIES (dumpsys activity activities)\n"
        f"  {name}ActivityRecord{{5f1a2b u0 {activity} t12}}\n"
    )


def _package(state: AndroidState, name: str) -> str:
    app = state.apps.get(name)
    if app is None:
        return f"Unable to find package: {name}\n"
    flags = "[ DEBUGGABLE HAS_CODE ]" if app.debuggable else "[ HAS_CODE ]"
    granted = "".join(f"      {each}: granted=true\n" for each in app.granted)
    return (
        f"Packages:\n  Package [{name}] (5f1a2b):\n    userId={app.uid}\n"
        f"    versionCode={app.version_code} minSdk=24 targetSdk=28\n"
        f"    versionName={app.version_name}\n    flags={flags}\n"
        f"    signatures=PackageSignatures{{5f1a2b version:2, signatures:[{app.signature}], "
        "past signatures:[]}\n    install permissions:\n"
        f"      android.permission.INTERNET: granted=true\n{granted}"
        f"    User 0: ceDataInode=1 installed=true stopped={str(not app.opened).lower()}\n"
    )


def _power(state: AndroidState, _: str) -> str:
    locks = "".join(f"  PARTIAL_WAKE_LOCK '{name}' ACQ=-1s\n" for name in state.wake_locks)
    return (
        "POWER MANAGER (dumpsys power)\n\nPower Manager State:\n"
        f"  mWakefulness={'Awake' if state.awake else 'Asleep'}\n"
        f"\nWake Locks: size={len(state.wake_locks)}\n{locks}"
    )


def _window(state: AndroidState, _: str) -> str:
    shows = str(state.keyguard).lower()
    return (
        "WINDOW MANAGER POLICY STATE (dumpsys window policy)\n"
        "    KeyguardServiceDelegate\n"
        f"      showing={shows}\n      showingAndNotOccluded={shows}\n"
        f"      inputRestricted={shows}\n      occluded=false\n"
        f"      secure={str(state.lock_screen == 'pin').lower()}\n"
    )
