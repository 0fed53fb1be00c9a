"""The files that a stand-in phone's Android tools read, out of its hardware's state.

A phone's folder of these files is mounted into its container, where `getprop`, `dumpsys` and
`termux-battery-status` answer from them.
"""

from __future__ import annotations

import json
from pathlib import Path

from standin.hardware.battery import capacity_ampere_hours, health_word, terminal_volts
from standin.hardware.state import HardwareState

# Android's numbers for these words, in `dumpsys battery`.
_STATUS_CODES = {"CHARGING": 2, "DISCHARGING": 3, "NOT_CHARGING": 4, "FULL": 5}
_HEALTH_CODES = {
    "GOOD": 2,
    "OVERHEAT": 3,
    "DEAD": 4,
    "OVER_VOLTAGE": 5,
    "UNSPECIFIED_FAILURE": 6,
    "COLD": 7,
}

STATE = "state.json"
CYCLE_COUNT_API_LEVEL = 34


def render(state: HardwareState) -> dict[str, str]:
    """The files of a phone's hardware folder that follow its hardware, by name."""
    return {
        "props.txt": _props(state),
        "battery_status.json": _battery_status(state),
        "dumpsys_battery.txt": _dumpsys_battery(state),
        "dumpsys_thermalservice.txt": _dumpsys_thermal(state),
    }


def write_hardware(
    folder: Path, state: HardwareState, written: dict[str, str] | None = None
) -> dict[str, str]:
    """Write the files that are not as in `written`, each at one moment; returns what they hold now.

    Nothing is synced to the disk: after a power cut of this machine no phone runs any more.
    """
    wanted = {STATE: state.to_json(), **render(state)}
    for name, text in wanted.items():
        if written is None or written.get(name) != text:
            temporary = folder / f".{name}.new"
            temporary.write_text(text)
            temporary.replace(folder / name)
    return wanted


def kept_state(folder: Path) -> HardwareState | None:
    """The state of a phone's folder; None where there is none, or one of another version."""
    try:
        return HardwareState.from_json((folder / STATE).read_text())
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def _props(state: HardwareState) -> str:
    props = {
        "ro.boot.serialno": state.identity.serial,
        "ro.build.version.release": state.identity.android_release,
        "ro.build.version.sdk": str(state.identity.api_level),
        "ro.product.brand": "samsung",
        "ro.product.manufacturer": "samsung",
        "ro.product.model": state.identity.model,
        "ro.serialno": state.identity.serial,
        "sys.boot_completed": "1",
    }
    return _lines(*(f"[{name}]: [{value}]" for name, value in props.items()))


def _battery_status(state: HardwareState) -> str:
    battery, celsius = state.battery, state.heat.battery_celsius
    scale = 1_000_000 if battery.current_unit == "microamperes" else 1000
    level = round(battery.charge_percent)
    status = {
        "present": True,
        "technology": "Li-ion",
        "health": health_word(battery, celsius),
        "plugged": "PLUGGED_AC" if battery.is_plugged else "UNPLUGGED",
        "status": battery.status,
        "temperature": round(celsius, 1),
        "voltage": round(terminal_volts(battery) * 1000),
        "current": round(battery.current_amperes * battery.current_sign * scale),
        "percentage": level,
        "level": level,
        "scale": 100,
        "charge_counter": _charge_counter(state),
    }
    if state.identity.api_level >= CYCLE_COUNT_API_LEVEL:
        status["cycle"] = int(battery.cycles)
    return json.dumps(status, indent=2) + "\n"


def _charge_counter(state: HardwareState) -> int:
    """Microampere-hours."""
    battery = state.battery
    return round(capacity_ampere_hours(battery) * battery.charge_percent * 10_000)


def _dumpsys_battery(state: HardwareState) -> str:
    """The last two lines are Samsung's: the part of its capacity that is left, and its cycles."""
    battery, celsius = state.battery, state.heat.battery_celsius
    return _lines(
        "Current Battery Service state:",
        f"  AC powered: {str(battery.is_plugged).lower()}",
        "  USB powered: false",
        "  Wireless powered: false",
        "  Max charging current: 0",
        "  Max charging voltage: 0",
        f"  Charge counter: {_charge_counter(state)}",
        f"  status: {_STATUS_CODES[battery.status]}",
        f"  health: {_HEALTH_CODES[health_word(battery, celsius)]}",
        "  present: true",
        f"  level: {round(battery.charge_percent)}",
        "  scale: 100",
        f"  voltage: {round(terminal_volts(battery) * 1000)}",
        f"  temperature: {round(round(celsius, 1) * 10)}",
        "  technology: Li-ion",
        f"  mSavedBatteryAsoc: {round(battery.health_percent)}",
        f"  mSavedBatteryUsage: {round(battery.cycles * 100)}",
    )


def _dumpsys_thermal(state: HardwareState) -> str:
    """The cached section is stale, as on real phones: readers must take the HAL's. One sensor is
    off, which reads 0, and one is no thermometer."""
    now = {
        "AP": (0, state.heat.processor_celsius),
        "BAT": (2, state.heat.battery_celsius),
        "SKIN": (3, state.heat.body_celsius),
        "USB": (4, 0.0),
        "VBAT": (6, terminal_volts(state.battery)),
    }

    def temperature(name: str, kind: int, value: float) -> str:
        return (
            f"\tTemperature{{mValue={value:.1f}, mType={kind}, mName={name}, "
            f"mStatus={state.heat.status}}}"
        )

    if not state.tells_heat:
        return _lines(
            "IsStatusOverride: false",
            "Thermal Status: 0",
            "Cached temperatures:",
            "HAL Ready: false",
        )
    return _lines(
        "IsStatusOverride: false",
        f"Thermal Status: {state.heat.status}",
        "Cached temperatures:",
        *(temperature(name, kind, 25.0) for name, (kind, _) in now.items()),
        "HAL Ready: true",
        "HAL connection:",
        "\tThermalHAL 2.0 connected: yes",
        "Current temperatures from HAL:",
        *(temperature(name, kind, value) for name, (kind, value) in now.items()),
        "Current cooling devices from HAL:",
        "\tCoolingDevice{mValue=0, mType=2, mName=thermal-cpufreq-0}",
    )
