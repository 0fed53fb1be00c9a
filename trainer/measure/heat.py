"""How warm this phone is, by what its own exporter last read, or by the kernel's sensors."""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SNAPSHOT = Path("phonerack/exporter/snapshot.json")
ZONES = Path("/sys/class/thermal")
_STALE_AFTER_SECONDS = 30.0
_EVERY_SECONDS = 2.0
_ZONE, _BATTERY = "phonerack_thermal_zone_celsius", "phonerack_battery_temperature_celsius"
_STATUS, _THROTTLED = "phonerack_thermal_status", "phonerack_throttled_seconds_total"


@dataclass(frozen=True, slots=True)
class Heat:
    """What the phone's exporter told last; None is unknown, never 0.

    `status` is Android's, 0 (not hot) to 6. `throttled_seconds`: for how long it was held back
    since the exporter began, whichever way that is known.
    """

    battery_celsius: float | None = None
    status: int | None = None
    throttled_seconds: float = 0.0


def look(home: Path | None = None) -> Heat:
    """Everything unknown where the phone has no exporter, or one that has stopped."""
    metrics = _snapshot((home or Path.home()) / SNAPSHOT, time.time())
    values = {name: _values(metrics, name) for name in (_BATTERY, _STATUS, _THROTTLED)}
    battery, status, throttled = values.values()
    return Heat(
        max(battery, default=None),
        int(max(status)) if status else None,
        sum(throttled),
    )


def celsius(home: Path | None = None, zones: Path = ZONES) -> float | None:
    """The hottest sensor, or the battery where no other can be read; None if nothing tells.

    The exporter comes first: Android denies most sensors to an app, and it knows which speak.
    """
    snapshot = (home or Path.home()) / SNAPSHOT
    told = _of_exporter(snapshot, time.time())
    return told if told is not None else _of_kernel(zones)


def _of_exporter(snapshot: Path, now: float) -> float | None:
    metrics = _snapshot(snapshot, now)
    return max(_values(metrics, _ZONE) or _values(metrics, _BATTERY), default=None)


def _snapshot(snapshot: Path, now: float) -> dict[str, Any]:
    """The exporter's metrics; none where there is no fresh and whole snapshot."""
    try:
        document = json.loads(snapshot.read_bytes())
        if abs(now - float(document["time"])) <= _STALE_AFTER_SECONDS:
            return dict(document["metrics"])
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return {}


def _values(metrics: dict[str, Any], name: str) -> list[float]:
    try:
        return [float(sample["value"]) for sample in metrics.get(name, [])]
    except (ValueError, TypeError, KeyError):
        return []


def _of_kernel(zones: Path) -> float | None:
    """Millidegrees, or degrees as some vendors do; a sensor that is off says 0 or nonsense."""
    found = []
    with contextlib.suppress(OSError):
        for path in zones.glob("thermal_zone*/temp"):
            with contextlib.suppress(OSError, ValueError):
                value = int(path.read_text())
                degrees = value / 1000 if abs(value) >= 200 else float(value)
                if value != 0 and -40 < degrees < 150:
                    found.append(degrees)
    return max(found, default=None)


class Thermometer:
    """Reads the temperature in the background, so that a step only looks at the last value."""

    def __init__(self) -> None:
        self._held_back = -math.inf
        self.celsius, self.heat = celsius(), look()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, name="thermometer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            before = self.heat
            self.celsius, self.heat = celsius(), look()
            if self.heat.throttled_seconds > before.throttled_seconds > 0:
                self._held_back = time.monotonic()

    @property
    def slowed(self) -> bool:
        """Whether Android takes the phone for hot, or has lately held its processor back."""
        lately = time.monotonic() - self._held_back < _STALE_AFTER_SECONDS
        return lately or (self.heat.status or 0) >= 1
