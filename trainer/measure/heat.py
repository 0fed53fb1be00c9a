"""How warm this phone is, by what its own exporter last read, or by the kernel's sensors."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

SNAPSHOT = Path("phonerack/exporter/snapshot.json")
ZONES = Path("/sys/class/thermal")
_STALE_AFTER_SECONDS = 30.0
_EVERY_SECONDS = 2.0
_ZONE, _BATTERY = "phonerack_thermal_zone_celsius", "phonerack_battery_temperature_celsius"


def celsius(home: Path | None = None, zones: Path = ZONES) -> float | None:
    """The hottest sensor, or the battery where no other can be read; None if nothing tells.

    The exporter comes first: Android denies most sensors to an app, and it knows which speak.
    """
    snapshot = (home or Path.home()) / SNAPSHOT
    told = _of_exporter(snapshot, time.time())
    return told if told is not None else _of_kernel(zones)


def _of_exporter(snapshot: Path, now: float) -> float | None:
    try:
        document = json.loads(snapshot.read_bytes())
        if abs(now - float(document["time"])) > _STALE_AFTER_SECONDS:
            return None
        metrics = document["metrics"]
        for name in (_ZONE, _BATTERY):
            if values := [float(sample["value"]) for sample in metrics.get(name, [])]:
                return max(values)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass
    return None


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
        self.celsius = celsius()
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
            self.celsius = celsius()
