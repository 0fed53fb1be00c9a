"""What a stand-in phone's Android keeps of the settings that a rack wants."""

from __future__ import annotations

from fleetctl.provision.android import UNSET, Wish
from standin.android.state import AndroidState


def kept(state: AndroidState, wish: Wish) -> str | None:
    """The value that a stand-in's Android has of this setting, as `android.understand` tells it."""
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
    }.get(wish.namespace, lambda: state.setting(wish.namespace, key) or UNSET)()
