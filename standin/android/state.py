"""What Android keeps on one stand-in phone. Pure values, but for one file per phone.

`android.json` lies in the phone's hardware folder, which the phone sees read-only; only the rack's
daemon writes it once the rack is up. `boot.txt` beside it is what the phone's `init` reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from fleetctl.rack.files import write_atomic

VERSION = 1
STATE_FILE = "android.json"
BOOT_FILE = "boot.txt"
PROPS_FILE = "android_props.txt"

TERMUX, TERMUX_API, TERMUX_BOOT = "com.termux", "com.termux.api", "com.termux.boot"
ADDED_APPS = (TERMUX, TERMUX_API, TERMUX_BOOT)

DUMP = "android.permission.DUMP"

PHANTOM_LIMIT = 32
"""Child processes over all apps, from Android 12 on; the oldest above it is killed."""

type Usb = Literal["controller", "hub", "nothing"]
"""Where the phone's only port leads: adb, or Ethernet and power, never both."""

type LockScreen = Literal["none", "swipe", "pin"]


@dataclass(slots=True)
class App:
    """An installed app. Apps of one shared user have one uid, and must have one signer.

    `opened`: somebody has started it; before that Android tells it nothing, not even of a boot.
    `granted`: permissions that adb has given it, of those that its manifest asks for. `signature`:
    what `dumpsys` prints of its signer.
    """

    version_code: int
    version_name: str
    signer: str
    uid: int
    debuggable: bool = False
    shared_user: str = ""
    opened: bool = False
    granted: list[str] = field(default_factory=list)
    signature: str = ""


@dataclass(slots=True)
class AndroidState:
    """The state of one phone's Android. Names of settings and their values are Android's own."""

    api_level: int
    abi: str
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    device_config: dict[str, str] = field(default_factory=dict)
    config_sync_disabled: str = "none"
    doze_exempt: list[str] = field(default_factory=list)
    app_ops: dict[str, dict[str, str]] = field(default_factory=dict)
    apps: dict[str, App] = field(default_factory=dict)
    next_uid: int = 10_100
    lock_screen: LockScreen = "swipe"
    usb: Usb = "controller"
    adb_keys: list[str] = field(default_factory=list)

    # What a reboot clears. `boot` tells one boot of the phone from the next.
    boot: str = ""
    unlocked: bool = False
    awake: bool = False
    keyguard: bool = True
    foreground: str = ""
    wake_locks: list[str] = field(default_factory=list)
    adb_tcp_port: int = 0
    torch: bool = False

    signals: list[str] = field(default_factory=list)
    """What somebody in front of the phone has seen and felt of it, newest last."""

    def signal(self, what: str, kept: int) -> None:
        self.signals = [*self.signals[1 - kept :], what]

    def setting(self, namespace: str, key: str) -> str | None:
        return self.settings.get(namespace, {}).get(key)

    def put_setting(self, namespace: str, key: str, value: str) -> None:
        self.settings.setdefault(namespace, {})[key] = value

    def may(self, uid: int, permission: str) -> bool:
        """Whether an app was granted this; apps of one shared user share it."""
        return any(app.uid == uid and permission in app.granted for app in self.apps.values())

    @property
    def screen_locked(self) -> bool:
        """Whether nobody has unlocked the phone since it booted, or somebody must."""
        return self.keyguard and self.lock_screen != "none"

    @property
    def phantom_limit(self) -> int | None:
        """Child processes over all apps before Android kills; None where it does not."""
        if self.api_level < 31:
            return None
        if self.api_level > 31 and self.monitors_phantoms == "false":
            return None
        return int(self.device_config.get("activity_manager/max_phantom_processes", PHANTOM_LIMIT))

    @property
    def monitors_phantoms(self) -> str:
        return self.setting("global", "settings_enable_monitor_phantom_procs") or "true"

    def boots(self, boot: str) -> None:
        """What a start of the phone clears."""
        if boot == self.boot:
            return
        self.boot = boot
        self.unlocked = self.lock_screen != "pin"
        self.awake = self.keyguard = self.lock_screen != "none"
        self.awake = self.torch = False
        self.foreground, self.wake_locks, self.adb_tcp_port = "", [], 0
        if self.config_sync_disabled != "persistent":
            # Google's servers set their own values again.
            self.config_sync_disabled, self.device_config = "none", {}

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> AndroidState:
        """Raises ValueError for a state of another version, TypeError for other fields."""
        fields: dict[str, Any] = json.loads(text)
        if fields.pop("version", None) != VERSION:
            raise ValueError(f"this Android state is not of version {VERSION}")
        fields["apps"] = {name: App(**app) for name, app in fields["apps"].items()}
        return cls(**fields)

    def boot_text(self) -> str:
        """Shell assignments for `init`: whose the apps' data is, and what a boot starts."""
        termux, boot_app = self.apps.get(TERMUX), self.apps.get(TERMUX_BOOT)
        values: Mapping[str, object] = {
            "app_uid": termux.uid if termux else "",
            "boot_app": "yes" if termux and boot_app and boot_app.opened else "no",
            # An app learns of a boot when the phone has been unlocked once since.
            "unlocked": "always" if self.lock_screen != "pin" else self.boot * self.unlocked,
        }
        return "".join(f"{name}={value}\n" for name, value in values.items())

    def props_text(self) -> str:
        """Lines of `getprop` that are Android's, not the hardware's."""
        return f"[ro.product.cpu.abilist]: [{self.abi}]\n"


def has_state(folder: Path) -> bool:
    return (folder / STATE_FILE).exists()


def read_state(folder: Path) -> AndroidState:
    """The state of the phone with this hardware folder."""
    return AndroidState.from_json((folder / STATE_FILE).read_text())


def write_state(folder: Path, state: AndroidState) -> None:
    """Keep it, and let the phone see what of it is not asked of a service."""
    write_atomic(folder / STATE_FILE, state.to_json())
    for name, text in ((BOOT_FILE, state.boot_text()), (PROPS_FILE, state.props_text())):
        if not (path := folder / name).exists() or path.read_text() != text:
            write_atomic(path, text)


class StateFile:
    """The state of one phone for one who looks often: read again only when it has changed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / STATE_FILE
        self._stamp: int | None = None
        self.state: AndroidState | None = None

    def changed(self) -> bool:
        """Look; whether `state` is another than before. A phone may have none."""
        try:
            stamp = self._path.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        if stamp == self._stamp:
            return False
        self._stamp, before = stamp, self.state
        self.state = AndroidState.from_json(self._path.read_text())
        return self.state != before
