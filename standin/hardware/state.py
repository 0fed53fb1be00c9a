"""All that there is to know of one stand-in phone's hardware, as one value."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Literal

VERSION = 2
CHARGE_LIMIT_PERCENT = 85
LABORATORY_CELSIUS = 25.0

type BatteryStatus = Literal["CHARGING", "DISCHARGING", "NOT_CHARGING", "FULL"]
type Defect = Literal["none", "dead", "over-voltage", "failure"]


@dataclass(frozen=True, slots=True)
class Identity:
    """Which phone it is; `android_release` is what people call the API level."""

    serial: str
    model: str
    api_level: int

    @property
    def android_release(self) -> str:
        return str(self.api_level - (19 if self.api_level <= 31 else 20))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where it stands. `outlet` is the power hub's that feeds it; several phones may share one."""

    outlet: str
    ambient_celsius: float = LABORATORY_CELSIUS
    has_fan: bool = True
    charger_watts: float = 10.0


@dataclass(frozen=True, slots=True)
class Heat:
    """Temperatures of its three parts, and Android's thermal status (0 none … 6 shutdown)."""

    processor_celsius: float
    body_celsius: float
    battery_celsius: float
    status: int = 0


@dataclass(frozen=True, slots=True)
class Battery:
    """`current_amperes` is positive while charging. `health_percent` is what is left of capacity.

    What Termux:API makes of the current differs by vendor: `current_sign` and `current_unit`.
    """

    charge_percent: float
    cycles: float
    health_percent: float
    current_amperes: float = 0.0
    status: BatteryStatus = "NOT_CHARGING"
    is_plugged: bool = True
    charge_limit_percent: float = CHARGE_LIMIT_PERCENT
    defect: Defect = "none"
    current_sign: Literal[1, -1] = 1
    current_unit: Literal["microamperes", "milliamperes"] = "microamperes"


@dataclass(frozen=True, slots=True)
class HardwareState:
    """`load` is the part of its processor that it used last, `watts` what it drew in all.

    `tells_heat`: whether its maker's part of Android's thermal service is ready.
    """

    identity: Identity
    surroundings: Surroundings
    heat: Heat
    battery: Battery
    load: float = 0.0
    watts: float = 0.0
    tells_heat: bool = True
    version: int = field(default=VERSION, kw_only=True)

    @classmethod
    def plausible(cls, serial: str, model: str, api_level: int, outlet: str = "") -> HardwareState:
        """A healthy, idle, used phone; each serial has its own battery, always the same."""
        digest = hashlib.sha256(serial.encode()).digest()
        cycles = 180.0 + digest[2]
        body = LABORATORY_CELSIUS + 1 + digest[1] % 10 / 10
        return cls(
            identity=Identity(serial, model, api_level),
            surroundings=Surroundings(outlet=outlet or serial),
            heat=Heat(body + 0.5, body, body),
            battery=Battery(
                charge_percent=float(62 + digest[0] % (CHARGE_LIMIT_PERCENT - 61)),
                cycles=cycles,
                health_percent=round(100 - cycles * 0.04, 1),
            ),
        )

    def to_json(self) -> str:
        return json.dumps(_rounded(asdict(self)), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> HardwareState:
        """Raises ValueError for a state of another version, TypeError for other fields."""
        fields = json.loads(text)
        if not isinstance(fields, dict) or fields.get("version") != VERSION:
            raise ValueError(f"this hardware state is not of version {VERSION}")
        parts = {
            "identity": Identity,
            "surroundings": Surroundings,
            "heat": Heat,
            "battery": Battery,
        }
        return cls(**fields | {name: kind(**fields[name]) for name, kind in parts.items()})


def _rounded(value: object) -> object:
    """So many digits that a kept state goes on as if it had not been put down."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return round(value, 6) if isinstance(value, float) else value
