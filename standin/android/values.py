"""Tools that read and change what Android keeps: settings, device_config, svc, appops, ….

What an API level lacks is answered as that Android answers.
"""

from __future__ import annotations

from collections.abc import Mapping

from standin.android.binder import Call, Failed
from standin.android.state import AndroidState

_NAMESPACES = ("global", "secure", "system")
_SYNC_MODES = ("none", "persistent", "until_reboot")
_MODES = ("allow", "ignore", "deny", "default", "foreground")
_APP_OPS_SINCE: Mapping[str, int] = {
    "RUN_IN_BACKGROUND": 24,
    "RUN_ANY_IN_BACKGROUND": 28,
    "AUTO_REVOKE_PERMISSIONS_IF_UNUSED": 30,
}


async def settings(state: AndroidState, call: Call) -> int:
    """settings get|put|delete|list NAMESPACE [KEY [VALUE]]"""
    if call.is_app:
        # The content provider is asked in the name of adb's shell, which an app is not.
        raise Failed("cmd: Failure calling service settings: Failed transaction (2147483646)", 224)
    verb, namespace = call.word(0), call.word(1)
    needed = {"get": 3, "put": 4, "delete": 3, "list": 2}.get(verb)
    if needed is None:
        raise Failed(f"Invalid command: {verb}")
    if len(call.words) < needed:
        raise Failed("Bad arguments")
    if namespace not in _NAMESPACES:
        raise Failed(f"Invalid namespace '{namespace}'")
    values = state.settings.setdefault(namespace, {})
    key = call.word(2)
    if verb == "get":
        await call.say(f"{values.get(key, 'null')}\n")
    elif verb == "put":
        values[key] = call.words[3]
    elif verb == "delete":
        await call.say(f"Deleted {int(values.pop(key, None) is not None)} rows\n")
    else:
        await call.say("".join(f"{name}={values[name]}\n" for name in sorted(values)))
    return 0


async def device_config(state: AndroidState, call: Call) -> int:
    """device_config get|put|delete NAMESPACE KEY [VALUE], from Android 10 on."""
    if state.api_level < 29:
        raise Failed("/system/bin/sh: device_config: not found", 127)
    shell_only(call)
    verb = call.word(0)
    name = f"{call.word(1)}/{call.word(2)}"
    if verb == "get":
        await call.say(f"{state.device_config.get(name, 'null')}\n")
    elif verb == "put":
        if len(call.words) < 4:
            raise Failed("Bad arguments")
        state.device_config[name] = call.words[3]
    elif verb == "delete":
        await call.say(f"Successfully deleted {call.word(2)} from {call.word(1)}\n")
        state.device_config.pop(name, None)
    elif verb == "list":
        start = f"{call.word(1)}/"
        found = sorted(item for item in state.device_config.items() if item[0].startswith(start))
        await call.say("".join(f"{key.removeprefix(start)}={value}\n" for key, value in found))
    else:
        await _config_sync(state, call)
    return 0


async def _config_sync(state: AndroidState, call: Call) -> None:
    """Whether Google's servers may set values again; Android 12 tells only whether or not."""
    verb, mode = call.word(0), call.word(1)
    if verb == "set_sync_disabled_for_tests" and state.api_level >= 31:
        if mode not in _SYNC_MODES:
            raise Failed("Bad arguments")
        state.config_sync_disabled = mode
    elif verb == "is_sync_disabled_for_tests" and state.api_level in (31, 32):
        await call.say(f"{str(state.config_sync_disabled != 'none').lower()}\n")
    elif verb == "get_sync_disabled_for_tests" and state.api_level >= 33:
        await call.say(f"{state.config_sync_disabled}\n")
    else:
        raise Failed(f"Invalid command: {verb}")


async def svc(state: AndroidState, call: Call) -> int:
    """svc wifi|data enable|disable, svc power stayon true|false|usb|ac"""
    shell_only(call)
    what, verb, value = call.word(0), call.word(1), call.word(2)
    switches = {"enable": "1", "disable": "0"}
    if what in ("wifi", "data") and verb in switches:
        state.put_setting(
            "global", {"wifi": "wifi_on", "data": "mobile_data"}[what], switches[verb]
        )
    elif what == "power" and verb == "stayon":
        sources = {"true": "7", "false": "0", "ac": "1", "usb": "2", "wireless": "4"}
        if value not in sources:
            raise Failed("usage: svc power stayon [true|false|usb|ac|wireless]", 0)
        state.put_setting("global", "stay_on_while_plugged_in", sources[value])
    else:
        await call.say("Available commands:\n    data\n    power\n    wifi\n", error=True)
    return 0


async def appops(state: AndroidState, call: Call) -> int:
    """appops set PACKAGE OP MODE, appops get PACKAGE [OP]"""
    shell_only(call)
    verb, package, op, mode = (call.word(place) for place in range(4))
    if verb not in ("get", "set"):
        raise Failed(f"Unknown command: {verb}")
    if package not in state.apps:
        raise Failed(f"Error: No UID for {package} in user 0")
    if op and _APP_OPS_SINCE.get(op, 99) > state.api_level:
        raise Failed(f"Error: Unknown operation string: {op}")
    ops = state.app_ops.setdefault(package, {})
    if verb == "set":
        if mode not in _MODES:
            raise Failed(f"Error: Mode {mode} is not valid,")
        ops[op] = mode
        return 0
    found = {name: ops[name] for name in ([op] if op else sorted(ops)) if name in ops}
    text = "".join(f"{name}: {mode}\n" for name, mode in found.items())
    await call.say(text or "No operations.\n")
    return 0


async def locksettings(state: AndroidState, call: Call) -> int:
    """locksettings get-disabled | set-disabled true|false; a phone with a PIN wants that first."""
    shell_only(call)
    verb, value = call.word(0), call.word(1)
    if verb == "get-disabled":
        await call.say(f"{str(state.lock_screen == 'none').lower()}\n")
    elif verb == "set-disabled" and value in ("true", "false"):
        if state.lock_screen == "pin":
            raise Failed("Old password provided incorrect or not provided")
        state.lock_screen = "none" if value == "true" else "swipe"
        if value == "true":
            state.keyguard = False
        await call.say(f"Lock screen disabled set to {value}\n")
    else:
        raise Failed(f"Unknown command: {verb}")
    return 0


async def deviceidle(state: AndroidState, call: Call) -> int:
    """dumpsys deviceidle whitelist [+PACKAGE | -PACKAGE]: what doze leaves alone."""
    if call.word(0) != "whitelist":
        raise Failed(f"Unknown option: {call.word(0)}", 0)
    for word in call.words[1:]:
        sign, package = word[:1], word[1:]
        if package not in state.apps:
            await call.say(f"Unknown package: {package}\n")
        elif sign == "+":
            if package not in state.doze_exempt:
                state.doze_exempt.append(package)
            await call.say(f"Added: {package}\n")
        elif sign == "-":
            state.doze_exempt.remove(package)
            await call.say(f"Removed: {package}\n")
    if not call.words[1:]:
        lines = ["system-excidle,com.android.providers.downloads,10011"]
        lines += [
            f"user,{name},{state.apps[name].uid}"
            for name in state.doze_exempt
            if name in state.apps
        ]
        await call.say("\n".join(lines) + "\n")
    return 0


def shell_only(call: Call) -> None:
    """Refuse an app, as Android does for want of a permission."""
    if call.is_app:
        raise Failed(
            f"java.lang.SecurityException: Permission Denial: {call.tool} from uid {call.uid}"
        )
