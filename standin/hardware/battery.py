"""What a battery does while its phone draws power from it or from a charger. Pure."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass, replace

from standin.hardware.state import Battery, BatteryStatus

DESIGN_AMPERE_HOURS = 4.1
CHARGER_EFFICIENCY = 0.9
LARGEST_CHARGE_AMPERES = 2.0
RESISTANCE_OHMS = 0.1

TOP_UP_PERCENT = 2.0
"""So far the charge falls below its limit before charging begins again."""

EMPTY_PERCENT = 0.5
"""At this the phone switches off."""

HOT_CELSIUS = 45.0
COLD_CELSIUS = 0.0
"""Outside these it is not charged."""

OVERHEAT_CELSIUS = 48.0
WEAR_PERCENT_PER_CYCLE = 0.04

_CURVE = ((0, 3.3), (5, 3.6), (20, 3.72), (50, 3.85), (75, 4.05), (95, 4.25), (100, 4.36))
"""Open-circuit voltage by charge in percent."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The battery after some time, and what of the power became heat: in the battery, elsewhere."""

    battery: Battery
    battery_heat_watts: float
    charger_heat_watts: float


def open_volts(charge_percent: float) -> float:
    place = min(max(bisect(_CURVE, (charge_percent, 9.9)), 1), len(_CURVE) - 1)
    (low, low_volts), (high, high_volts) = _CURVE[place - 1 : place + 1]
    return low_volts + (high_volts - low_volts) * (charge_percent - low) / (high - low)


def resistance_ohms(battery: Battery) -> float:
    """It grows as the battery wears."""
    return RESISTANCE_OHMS * (2 - battery.health_percent / 100)


def terminal_volts(battery: Battery) -> float:
    drop = battery.current_amperes * resistance_ohms(battery)
    return open_volts(battery.charge_percent) + drop


def capacity_ampere_hours(battery: Battery) -> float:
    return DESIGN_AMPERE_HOURS * battery.health_percent / 100


def flow(
    battery: Battery, celsius: float, drawn_watts: float, fed_watts: float, seconds: float
) -> Flow:
    """`battery` after some seconds in which its phone draws `drawn_watts`, the charger giving at
    most `fed_watts` (0: unplugged)."""
    surplus = fed_watts * CHARGER_EFFICIENCY - drawn_watts
    volts = open_volts(battery.charge_percent)
    if surplus < 0:
        amperes = surplus / volts
    else:
        amperes = min(_wanted_amperes(battery, celsius), surplus / volts)
    capacity = capacity_ampere_hours(battery)
    moved = amperes * seconds / 3600 / capacity * 100
    charge = battery.charge_percent + moved
    if amperes > 0:
        charge = min(charge, max(battery.charge_limit_percent, battery.charge_percent))
    cycles = max(0.0, moved) / 100
    from_charger = max(0.0, drawn_watts + amperes * volts) if fed_watts else 0.0
    return Flow(
        replace(
            battery,
            charge_percent=min(100.0, max(0.0, charge)),
            current_amperes=amperes,
            status=_status(amperes, charge, fed_watts > 0),
            is_plugged=fed_watts > 0,
            cycles=battery.cycles + cycles,
            health_percent=max(1.0, battery.health_percent - cycles * WEAR_PERCENT_PER_CYCLE),
        ),
        battery_heat_watts=amperes**2 * resistance_ohms(battery),
        charger_heat_watts=from_charger * (1 / CHARGER_EFFICIENCY - 1),
    )


def _wanted_amperes(battery: Battery, celsius: float) -> float:
    """What it would take if the charger gave enough; less and less over the last fifth."""
    limit = battery.charge_limit_percent
    begin = limit if battery.status == "CHARGING" else limit - TOP_UP_PERCENT
    if battery.charge_percent >= begin or not COLD_CELSIUS < celsius < HOT_CELSIUS:
        return 0.0
    if battery.defect == "dead":
        return 0.0
    return LARGEST_CHARGE_AMPERES * max(0.05, min(1.0, (100 - battery.charge_percent) / 20))


def _status(amperes: float, charge: float, is_plugged: bool) -> BatteryStatus:
    if amperes > 0:
        return "CHARGING"
    if amperes < 0 or not is_plugged:
        return "DISCHARGING"
    return "FULL" if charge >= 99.5 else "NOT_CHARGING"


def health_word(battery: Battery, celsius: float) -> str:
    """Android's word for the battery's health."""
    if battery.defect != "none":
        words = {"dead": "DEAD", "over-voltage": "OVER_VOLTAGE", "failure": "UNSPECIFIED_FAILURE"}
        return words[battery.defect]
    if celsius >= OVERHEAT_CELSIUS:
        return "OVERHEAT"
    return "COLD" if celsius <= COLD_CELSIUS else "GOOD"
