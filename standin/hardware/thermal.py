"""How warm a phone gets, and what Android does about it. Pure.

Three parts take up heat: the body (and with it the skin), warmed by all that the phone draws and
cooled by the air; the processor and the battery, warmer than the body by what they draw themselves.
The figures are of a Galaxy S10+: 175 g, so about 150 J/K; its surface of 0.023 m² loses one watt
for 4 K in still air between neighbours, for 1.5 K under a fan; all cores draw 4 W for long. With
them training slows by 15 to 36 % without fans and not at all with them, as measured on real racks
(`tests/standin/test_hardware_model.py`).
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache

from standin.hardware.state import Heat

IDLE_WATTS = 0.45
FULL_WATTS = 4.0
"""What the processor draws above idle when all of it works at full speed."""

BODY_JOULES_PER_KELVIN = 150.0
STILL_KELVIN_PER_WATT = 4.0
FAN_KELVIN_PER_WATT = 1.5

STILL_NEIGHBOUR = 0.06
FAN_NEIGHBOUR = 0.02
"""By how much of what a neighbour is above its own air a phone's air is warmer for it."""

PROCESSOR_KELVIN_PER_WATT = 8.0
PROCESSOR_SECONDS = 8.0
BATTERY_KELVIN_PER_WATT = 3.0
BATTERY_SECONDS = 180.0

STATUS_CELSIUS = (39.0, 42.0, 45.0, 48.0, 52.0, 58.0)
"""Skin temperatures at which light, moderate, severe, critical, emergency and shutdown begin."""

RELIEF_KELVIN = 2.0
"""By so much the skin must be below that again before the status goes back."""

SHUTDOWN = 6

SPEEDS = (1.0, 0.87, 0.735, 0.5, 0.35, 0.2, 0.2)
"""Speed of the processor by thermal status."""


@lru_cache
def individual(serial: str) -> tuple[float, float]:
    """By what this phone's heat resistance and power differ from the model's: factors near 1."""
    digest = hashlib.sha256(f"heat/{serial}".encode()).digest()
    return 0.95 + digest[0] / 2550, 0.97 + digest[1] / 4250


def processor_watts(load: float, speed: float, serial: str) -> float:
    """Above idle, at `load` of the full processor while it may run at `speed` of its frequency.

    Power falls with the square of the frequency, since the voltage falls with it too.
    """
    busy = min(1.0, load / speed)
    return FULL_WATTS * individual(serial)[1] * busy * speed**2


def air_celsius(ambient: float, has_fan: bool, excesses: list[float]) -> float:
    """The air around a phone whose neighbours' bodies are so much above their own ambient."""
    share = FAN_NEIGHBOUR if has_fan else STILL_NEIGHBOUR
    return ambient + share * sum(max(0.0, excess) for excess in excesses)


def warm(
    heat: Heat,
    air: float,
    has_fan: bool,
    serial: str,
    processor: float,
    battery: float,
    rest: float,
    seconds: float,
) -> Heat:
    """`heat` after some seconds in `air` at the powers, in watts, of processor, battery, rest."""
    resistance = FAN_KELVIN_PER_WATT if has_fan else STILL_KELVIN_PER_WATT
    resistance *= individual(serial)[0]
    target = air + (processor + battery + rest) * resistance
    body = _near(heat.body_celsius, target, resistance * BODY_JOULES_PER_KELVIN, seconds)
    return Heat(
        processor_celsius=_near(
            heat.processor_celsius,
            body + processor * PROCESSOR_KELVIN_PER_WATT,
            PROCESSOR_SECONDS,
            seconds,
        ),
        body_celsius=body,
        battery_celsius=_near(
            heat.battery_celsius,
            body + battery * BATTERY_KELVIN_PER_WATT,
            BATTERY_SECONDS,
            seconds,
        ),
        status=status(body, heat.status),
    )


def _near(now: float, target: float, time_constant: float, seconds: float) -> float:
    """Exact for a target that stands still, so it overshoots at no length of step."""
    return target + (now - target) * math.exp(-seconds / time_constant)


def status(skin: float, present: int) -> int:
    """Android's thermal status at a skin temperature, on the way from `present`."""
    reached = sum(skin >= limit for limit in STATUS_CELSIUS)
    kept = sum(skin >= limit - RELIEF_KELVIN for limit in STATUS_CELSIUS)
    return reached if reached > present else min(present, kept)
