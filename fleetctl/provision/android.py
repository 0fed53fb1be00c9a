"""What a rack wants of a phone's Android, and how adb reads, makes and verifies it.

One table for `fleetctl enroll` and for the role `android`. A setting is named `NAMESPACE/KEY`:

    global, system, secure   Android's settings
    device_config            flags, `device_config/activity_manager/max_phantom_processes`
    config_sync              whether Google's servers may set flags again
    doze                     an app's name; `exempt` or `optimised`
    permission               `permission/com.termux/android.permission.DUMP`; `granted` or `denied`
    app_op                   `app_op/com.termux.boot/AUTO_REVOKE_PERMISSIONS_IF_UNUSED`
    radio                    `wifi` and `data`; `on` or `off`
    lock_screen              `disabled`; `true` or `false`
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fleetctl.remote.adb import AdbPhone

TERMUX_APPS = ("com.termux", "com.termux.api", "com.termux.boot")
NO_PHANTOM_LIMIT = "2147483647"
HEAT = "permission/com.termux/android.permission.DUMP"
UNSET = "null"
"""What Android prints of a setting that it has not."""

PHANTOM_FLAG = "device_config/activity_manager/max_phantom_processes"

# 1 mains, 2 USB, 4 wireless.
_ON_ANY_CHARGER = "7"
_MARK = "@@phonerack"
_UNREADABLE = re.compile(
    r"Invalid command|Unknown command|not found|inaccessible|Exception|Failure"
)


@dataclass(frozen=True, slots=True)
class Wish:
    """One setting. One that is not `needed` may fail; it is reported, and the phone is enrolled.

    One with `instead_of` is made only where the setting has that value: any other is not ours.
    """

    name: str
    value: str
    why: str
    needed: bool = True
    instead_of: str | None = None

    def differs(self, present: str | None) -> bool:
        """Whether it has to be made, the setting being as it is at `present`."""
        return present != self.value and self.instead_of in (None, present)

    @property
    def namespace(self) -> str:
        return self.name.partition("/")[0]

    @property
    def key(self) -> str:
        return self.name.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Profile:
    """What the wishes depend on. `services`: address of the rack's services host, which
    `serves_time` or does not; `wired`: ssh has answered over Ethernet, so Wi-Fi may go."""

    api_level: int
    manufacturer: str
    services: str | None = None
    serves_time: bool = False
    wired: bool = False


WIFI_OFF = Wish("radio/wifi", "off", "one network only, and that is the wire", needed=False)


def wishes(profile: Profile) -> list[Wish]:
    """All that the rack wants of such a phone, in the order in which it is made."""
    level = profile.api_level
    found = [
        Wish("global/verifier_verify_adb_installs", "0", "no dialog stops the apps' installation"),
        Wish("global/stay_on_while_plugged_in", _ON_ANY_CHARGER, "the phone never sleeps"),
        Wish("lock_screen/disabled", "true", "Termux:Boot starts without hands", needed=False),
        *_children(level),
        *(Wish(f"doze/{app}", "exempt", "doze leaves it alone") for app in TERMUX_APPS),
        Wish(HEAT, "granted", "the exporter may read Android's temperatures", needed=False),
        Wish("global/captive_portal_mode", "0", "a network without Internet is used"),
        Wish("radio/data", "off", "no mobile data instead of the rack's network", needed=False),
        Wish("system/screen_brightness_mode", "0", "brightness stays as set"),
        Wish("system/screen_brightness", "1", "the screen heats least"),
    ]
    if level >= 30:
        found.append(Wish("global/cached_apps_freezer", "disabled", "no app is frozen"))
        found += [
            Wish(
                f"app_op/{app}/AUTO_REVOKE_PERMISSIONS_IF_UNUSED",
                "ignore",
                "an app that nobody opens stays allowed to start",
            )
            for app in TERMUX_APPS
        ]
    if profile.services:
        found.append(_time(profile.services, profile.serves_time))
    if profile.manufacturer.lower() == "samsung":
        found.append(
            Wish("global/protect_battery", "1", "charging stops before full", needed=False)
        )
    if profile.wired:
        found.append(WIFI_OFF)
    return found


def _time(services: str, serves: bool) -> Wish:
    """The phone asks the services host for the time, and only where that serves it."""
    name = "global/ntp_server"
    if serves:
        return Wish(name, services, "the rack's own time")
    return Wish(name, UNSET, "the rack serves no time", instead_of=services)


def _children(level: int) -> list[Wish]:
    """From Android 12 on, child processes above 32 over all apps are killed; 12L has a switch."""
    why = "ranks are not killed as phantom processes"
    if level == 31:
        # In this order, else the next sync undoes it.
        return [
            Wish("config_sync/disabled", "persistent", why),
            Wish(PHANTOM_FLAG, NO_PHANTOM_LIMIT, why),
        ]
    if level > 31:
        return [Wish("global/settings_enable_monitor_phantom_procs", "false", why)]
    return []


def before_apps(wanted: Sequence[Wish]) -> list[Wish]:
    """Those that do not need the apps to be there."""
    return [wish for wish in wanted if wish.namespace not in ("doze", "app_op", "permission")]


def get_command(name: str) -> str:
    """The shell command that prints a setting's present value, in Android's words."""
    namespace, _, key = name.partition("/")
    words = [shlex.quote(word) for word in key.split("/")]
    if name == PHANTOM_FLAG:
        # What is in force, where Android tells it.
        return (
            "v=$(dumpsys activity settings | sed -n 's/^ *max_phantom_processes=//p' | head -n 1);"
            f' if [ -n "$v" ]; then echo "$v"; else device_config get {" ".join(words)}; fi'
        )
    return {
        "device_config": f"device_config get {' '.join(words)}",
        "config_sync": "device_config get_sync_disabled_for_tests 2>/dev/null"
        " || device_config is_sync_disabled_for_tests",
        "doze": f"dumpsys deviceidle whitelist | grep ,{words[0]}, || echo none",
        "app_op": f"cmd appops get {' '.join(words)}",
        # `dumpsys package` has hundreds of lines of an app.
        "permission": f"dumpsys package {words[0]} | grep -F {words[-1]}: || echo none",
        "radio": f"settings get global {'wifi_on' if key == 'wifi' else 'mobile_data'}",
        "lock_screen": "locksettings get-disabled",
    }.get(namespace, f"settings get {namespace} {words[0]}")


def set_command(name: str, value: str) -> str:
    namespace, _, key = name.partition("/")
    words = " ".join(shlex.quote(word) for word in (*key.split("/"), value))
    package = shlex.quote(key)
    if value == UNSET:
        return f"settings delete {namespace} {package}"
    return {
        "device_config": f"device_config put {words}",
        "config_sync": f"device_config set_sync_disabled_for_tests {shlex.quote(value)}",
        "doze": f"dumpsys deviceidle whitelist {'+' if value == 'exempt' else '-'}{package}",
        "app_op": f"cmd appops set {words}",
        "permission": f"pm {'grant' if value == 'granted' else 'revoke'} "
        + " ".join(shlex.quote(word) for word in key.split("/")),
        "radio": f"svc {package} {'enable' if value == 'on' else 'disable'}",
        "lock_screen": f"locksettings set-disabled {shlex.quote(value)}",
    }.get(namespace, f"settings put {namespace} {words}")


def understand(name: str, said: str) -> str | None:
    """A value in our words out of what Android printed; None where it cannot be read."""
    namespace, _, key = name.partition("/")
    text = said.strip()
    if namespace == "doze":
        return "exempt" if f",{key}," in text else "optimised"
    if namespace == "permission":
        return "granted" if f"{key.rpartition('/')[2]}: granted=true" in text else "denied"
    if namespace == "app_op":
        op = key.rpartition("/")[2]
        found = re.search(rf"\b{re.escape(op)}: (\w+)", text)
        return found[1] if found else "default" if "No operations" in text else None
    if not text or _UNREADABLE.search(text):
        return None
    last = text.splitlines()[-1].strip()
    if namespace == "radio":
        # 2: on in spite of the flight mode, 3: off for it
        return {"0": "off", "3": "off", "1": "on", "2": "on"}.get(last)
    if namespace == "config_sync" and last in ("true", "false"):
        # Android 12 does not tell for how long.
        return "persistent" if last == "true" else "none"
    return last


@dataclass(frozen=True, slots=True)
class Outcome:
    """Values before and after by name, None where Android does not tell; and what went wrong."""

    before: Mapping[str, str | None]
    after: Mapping[str, str | None]
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> list[str]:
        return [name for name, value in self.after.items() if value != self.before[name]]


async def read_values(phone: AdbPhone, names: Sequence[str]) -> dict[str, str | None]:
    """Present values, all in one call."""
    script = "".join(f"echo {_MARK}; ({get_command(name)}) 2>&1\n" for name in names)
    said = (await phone.shell(script)).stdout
    parts = said.split(_MARK)[1:]
    return {
        name: understand(name, part)
        for name, part in zip(names, [*parts, *[""] * len(names)], strict=False)
    }


async def ensure(phone: AdbPhone, wanted: Sequence[Wish], check: bool = False) -> Outcome:
    """Make what differs and read it back; with `check` only say what would be."""
    names = [wish.name for wish in wanted]
    before = await read_values(phone, names)
    differing = [wish for wish in wanted if wish.differs(before[wish.name])]
    if check or not differing:
        return Outcome(before, before | {wish.name: wish.value for wish in differing})
    script = "".join(
        f"echo {_MARK}; {set_command(wish.name, wish.value)} 2>&1\n" for wish in differing
    )
    said = (await phone.shell(script)).stdout.split(_MARK)[1:]
    after = await read_values(phone, names)
    answers = {
        wish.name: text.strip()
        for wish, text in zip(differing, [*said, *[""] * len(differing)], strict=False)
    }
    problems = {
        wish.name: _complaint(wish, after[wish.name], answers[wish.name])
        for wish in differing
        if after[wish.name] != wish.value
    }
    return Outcome(before, after, problems)


def _complaint(wish: Wish, value: str | None, answer: str) -> str:
    told = f"; Android says: {answer.splitlines()[-1]}" if answer else ""
    return (
        f"{wish.name} is {value or 'unreadable'} after it was set to {wish.value} "
        f"({wish.why}){told}"
    )
