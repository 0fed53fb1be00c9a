"""The hardware of a stand-in phone: one state, and the files that its Android tools read.

Pure values. A phone's folder of these files is mounted into its container, where `getprop`,
`settings`, `pm`, `dumpsys` and `termux-battery-status` answer from them. Nothing changes by itself.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

VERSION = 1
CHARGE_LIMIT_PERCENT = 85
BATTERY_CAPACITY_MICROAMPERE_HOURS = 4_100_000

# Android's numbers for these words, in `dumpsys battery`.
_STATUS_CODES = {"CHARGING": 2, "DISCHARGING": 3, "NOT_CHARGING": 4, "FULL": 5}
_HEALTH_CODES = {"GOOD": 2, "OVERHEAT": 3, "DEAD": 4, "OVER_VOLTAGE": 5, "COLD": 7}

_APPS = ("android", "com.android.settings", "com.termux", "com.termux.api", "com.termux.boot")


@dataclass(frozen=True, slots=True)
class HardwareState:
    """A Galaxy S10+ on its charger. `battery_current_microamperes` is positive while charging."""

    serial: str
    model: str
    api_level: int
    android_release: str
    battery_level_percent: int
    battery_temperature_celsius: float
    battery_voltage_millivolts: int
    battery_current_microamperes: int
    battery_status: str
    battery_health: str
    is_plugged: bool
    processor_temperature_celsius: float
    skin_temperature_celsius: float
    thermal_status: int

    @classmethod
    def plausible(cls, serial: str, model: str, api_level: int) -> HardwareState:
        """A healthy, idle phone; each serial has its own level and temperature, always the same."""
        digest = hashlib.sha256(serial.encode()).digest()
        level = 62 + digest[0] % (CHARGE_LIMIT_PERCENT - 61)
        temperature = 27 + digest[1] % 60 / 10
        charging = level < CHARGE_LIMIT_PERCENT
        return cls(
            serial=serial,
            model=model,
            api_level=api_level,
            android_release=str(api_level - (19 if api_level <= 31 else 20)),
            battery_level_percent=level,
            battery_temperature_celsius=temperature,
            battery_voltage_millivolts=3700 + 6 * level + digest[2] % 20,
            battery_current_microamperes=1000 * (350 + digest[3]) if charging else 0,
            battery_status="CHARGING" if charging else "NOT_CHARGING",
            battery_health="GOOD",
            is_plugged=True,
            processor_temperature_celsius=temperature + 6.5,
            skin_temperature_celsius=temperature + 1.5,
            thermal_status=0,
        )

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> HardwareState:
        """Raises ValueError for a state of another version, TypeError for other fields."""
        fields = json.loads(text)
        if fields.pop("version", None) != VERSION:
            raise ValueError(f"this hardware state is not of version {VERSION}")
        return cls(**fields)


def render(state: HardwareState) -> dict[str, str]:
    """The files of a phone's hardware folder, by name."""
    return {
        "state.json": state.to_json(),
        "props.txt": _props(state),
        "settings.txt": _settings(),
        "packages.txt": _lines(*(f"package:{app}" for app in _APPS)),
        "battery_status.json": _battery_status(state),
        "dumpsys_battery.txt": _dumpsys_battery(state),
        "dumpsys_thermalservice.txt": _dumpsys_thermal(state),
    }


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def _props(state: HardwareState) -> str:
    props = {
        "ro.boot.serialno": state.serial,
        "ro.build.version.release": state.android_release,
        "ro.build.version.sdk": str(state.api_level),
        "ro.product.brand": "samsung",
        "ro.product.manufacturer": "samsung",
        "ro.product.model": state.model,
        "ro.serialno": state.serial,
        "sys.boot_completed": "1",
    }
    return _lines(*(f"[{name}]: [{value}]" for name, value in props.items()))


def _settings() -> str:
    """A phone out of the box: nothing that a rack wants is set yet."""
    return _lines(
        "global airplane_mode_on=0",
        "global mobile_data=0",
        "global protect_battery=1",
        "global settings_enable_monitor_phantom_procs=true",
        "global stay_on_while_plugged_in=0",
        "global wifi_on=0",
        "system screen_off_timeout=30000",
    )


def _battery_status(state: HardwareState) -> str:
    status = {
        "present": True,
        "technology": "Li-ion",
        "health": state.battery_health,
        "plugged": "PLUGGED_AC" if state.is_plugged else "UNPLUGGED",
        "status": state.battery_status,
        "temperature": round(state.battery_temperature_celsius, 1),
        "voltage": state.battery_voltage_millivolts,
        "current": state.battery_current_microamperes,
        "percentage": state.battery_level_percent,
        "level": state.battery_level_percent,
        "scale": 100,
        "charge_counter": _charge_counter(state),
    }
    return json.dumps(status, indent=2) + "\n"


def _charge_counter(state: HardwareState) -> int:
    return BATTERY_CAPACITY_MICROAMPERE_HOURS * state.battery_level_percent // 100


def _dumpsys_battery(state: HardwareState) -> str:
    return _lines(
        "Current Battery Service state:",
        f"  AC powered: {str(state.is_plugged).lower()}",
        "  USB powered: false",
        "  Wireless powered: false",
        "  Max charging current: 0",
        "  Max charging voltage: 0",
        f"  Charge counter: {_charge_counter(state)}",
        f"  status: {_STATUS_CODES[state.battery_status]}",
        f"  health: {_HEALTH_CODES[state.battery_health]}",
        "  present: true",
        f"  level: {state.battery_level_percent}",
        "  scale: 100",
        f"  voltage: {state.battery_voltage_millivolts}",
        f"  temperature: {round(state.battery_temperature_celsius * 10)}",
        "  technology: Li-ion",
    )


def _dumpsys_thermal(state: HardwareState) -> str:
    """The cached section is stale, as on real phones: readers must take the HAL's."""
    now = {
        "AP": (0, state.processor_temperature_celsius),
        "BAT": (2, state.battery_temperature_celsius),
        "SKIN": (3, state.skin_temperature_celsius),
    }

    def temperature(name: str, kind: int, value: float) -> str:
        return (
            f"\tTemperature{{mValue={value:.1f}, mType={kind}, mName={name}, "
            f"mStatus={state.thermal_status}}}"
        )

    return _lines(
        "IsStatusOverride: false",
        f"Thermal Status: {state.thermal_status}",
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
