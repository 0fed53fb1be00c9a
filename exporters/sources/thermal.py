"""Heat: from the kernel's thermal zones where the vendor shows them to apps, else from Android.

`dumpsys thermalservice` is for adb and for apps that were granted `android.permission.DUMP`, which
enrolment does for Termux. It tells the same sensors twice: what a listener was told when a status
last changed, and what the hardware says now. Only the latter counts.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from exporters.command import CommandError, output
from exporters.metrics import THERMAL_STATUS, THERMAL_ZONE, THROTTLED, Sample
from exporters.sources import Layout, Source, Unavailable, numbered, read_text
from exporters.sources.throttle import Lasting

MOST_ZONES = 12
"""That are shown: a phone has less than 150 series."""
MOST_LOOKS = 32
"""Some phones have ninety thermal zones; the first are the cores."""
LIMIT_SECONDS = 5.0

LIVE = "Current temperatures from HAL:"
KINDS = {0: "cpu", 1: "gpu", 2: "battery", 3: "skin", 4: "usb", 5: "amplifier", 9: "npu"}
"""Android's TemperatureType. 6 to 8 are voltage, current and charge, no temperatures."""
_NO_TEMPERATURE = (6, 7, 8)
_RANKS = {"battery": 0, "skin": 1, "cpu": 2, "gpu": 3, "npu": 4}
"""What is shown first where there is too much."""


ASK_SECONDS = 15.0
"""Between two questions to Android: each is a process, so not as often as files are read."""


def source(layout: Layout, ask_seconds: float = ASK_SECONDS) -> Source:
    return Source("thermal", Heater(layout, ask_seconds).read, limit_seconds=LIMIT_SECONDS + 2.0)


class Heater:
    """Which of the two a phone has is settled once, at the first look: a vendor's denial does not
    change."""

    def __init__(self, layout: Layout, ask_seconds: float) -> None:
        self._layout = layout
        self._ask_seconds = ask_seconds
        self._has_zones = False
        self._denied: OSError | Unavailable | None = None
        self._slowed = Lasting()
        self._due = -math.inf
        self._kept: list[Sample] | Unavailable = []

    def read(self) -> list[Sample]:
        if self._denied is None:
            try:
                found = list(zones(self._layout))
            except (OSError, Unavailable) as problem:
                if self._has_zones:
                    raise
                self._denied = problem
            else:
                self._has_zones = True
                return found
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._ask_seconds
            self._kept = self._ask()
        if isinstance(self._kept, Unavailable):
            raise self._kept
        return self._kept

    def _ask(self) -> list[Sample] | Unavailable:
        try:
            samples = list(service(self._layout))
        except (CommandError, Unavailable) as problem:
            return Unavailable(f"{problem}; and {self._denied}")
        for sample in samples:
            if sample.metric is THERMAL_STATUS:
                seconds = self._slowed.look(sample.value >= 1, time.monotonic())
                return [*samples, THROTTLED.sample(seconds, "thermal_status")]
        return samples


def zones(layout: Layout) -> Iterator[Sample]:
    """Zones in millidegrees, or in degrees as some vendors do; switched-off zones are left out."""
    readable = 0
    for folder in numbered(layout.sys / "class/thermal", "thermal_zone")[:MOST_LOOKS]:
        if readable == MOST_ZONES:
            break
        with contextlib.suppress(OSError, ValueError):
            kind, value = read_text(folder / "type"), int(read_text(folder / "temp"))
            celsius = value / 1000 if abs(value) >= 200 else value
            if is_measured(celsius):
                readable += 1
                yield THERMAL_ZONE.sample(celsius, folder.name.removeprefix("thermal_zone"), kind)
    if not readable:
        raise Unavailable("no thermal zone can be read")


def is_measured(celsius: float) -> bool:
    """A sensor that is off says exactly 0 or the impossible."""
    return celsius != 0 and THERMAL_ZONE.is_possible(celsius)


def service(layout: Layout) -> Iterator[Sample]:
    """What Android's thermal service tells now, and the status by which it throttles."""
    said = output([str(layout.dumpsys), "thermalservice"], limit_seconds=LIMIT_SECONDS)
    heat = parse(said.decode(errors="replace"))
    if heat.status is not None:
        yield THERMAL_STATUS.sample(heat.status)
    shown = sorted(heat.sensors, key=lambda sensor: _RANKS.get(sensor.kind, len(_RANKS)))
    for sensor in shown[:MOST_ZONES]:
        yield THERMAL_ZONE.sample(sensor.celsius, sensor.name, sensor.kind)


@dataclass(frozen=True, slots=True)
class Sensor:
    name: str
    kind: str
    celsius: float


@dataclass(frozen=True, slots=True)
class Heat:
    """`status` is Android's, 0 (none) to 6 (shutdown). A name occurs once in `sensors`."""

    status: int | None
    sensors: tuple[Sensor, ...]


def parse(text: str) -> Heat:
    """Live values out of what `dumpsys thermalservice` prints.

    Raises Unavailable where it is denied, the hardware is not ready, or no sensor of it is on.
    """
    lines = [line.strip() for line in text.split("\n")]  # a name may hold any other break
    if denied := next((line for line in lines if line.startswith("Permission Denial")), None):
        raise Unavailable(f"dumpsys: {denied[:80]}")
    if "HAL Ready: true" not in lines:
        answers = any(line.startswith("HAL Ready:") for line in lines)
        raise Unavailable(f"dumpsys: {'HAL not ready' if answers else 'no thermal service'}")
    if LIVE not in lines:
        raise Unavailable(f"dumpsys: no `{LIVE}`")
    found: dict[str, Sensor] = {}
    for line in lines[lines.index(LIVE) + 1 :]:
        if not line.startswith("Temperature{"):
            break
        if (sensor := _sensor(line)) is not None:
            found.setdefault(sensor.name, sensor)
    if not found:
        raise Unavailable("dumpsys: no sensor gives a temperature")
    status = re.search(r"^\s*Thermal Status: ([0-6])\s*$", text, re.MULTILINE)
    return Heat(int(status[1]) if status else None, tuple(found.values()))


def _sensor(line: str) -> Sensor | None:
    """`Temperature{mValue=31.2, mType=3, mName=SKIN, mStatus=0}`; None for what is none."""
    fields = dict(re.findall(r"(mValue|mType|mName)=([^,}]*)", line))
    try:
        kind, celsius = int(fields["mType"]), float(fields["mValue"])
    except (KeyError, ValueError):
        return None
    if kind in _NO_TEMPERATURE or not is_measured(celsius) or not fields.get("mName"):
        return None
    return Sensor(fields["mName"], KINDS.get(kind, "unknown"), celsius)
