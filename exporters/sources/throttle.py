"""For how long something has been so, by looks that are some seconds apart."""

from __future__ import annotations

LONGEST_GAP_SECONDS = 120.0
"""What was between two looks that are further apart, nobody knows: it does not count."""


class Lasting:
    """Adds up the time between looks of which the first saw it. Times are monotonic."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._last: tuple[float, bool] | None = None

    def look(self, is_so: bool, now: float) -> float:
        """The seconds so far, after one more look."""
        if self._last is not None:
            then, was_so = self._last
            if was_so and 0 < now - then <= LONGEST_GAP_SECONDS:
                self._seconds += now - then
        self._last = (now, is_so)
        return self._seconds
