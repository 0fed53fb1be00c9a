"""How long to leave phones alone whose sshd has said that it does not want us now. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from fleetctl.remote.faults import Fault, PhoneError

FIRST_SECONDS = 2.0
LONGEST_SECONDS = 30.0
"""Penalties last for 15 s and more; a phone that comes back shall not wait much longer."""


@dataclass(frozen=True, slots=True)
class _Pause:
    until: float
    seconds: float


@dataclass(slots=True)
class Pauses:
    """The phones that are left alone, each for twice as long as the time before, until it lets us
    in. Times are seconds of any one clock."""

    _kept: dict[str, _Pause] = field(default_factory=dict)

    def holds(self, phone: str, now: float) -> bool:
        """Whether it is too early to ask the phone again."""
        pause = self._kept.get(phone)
        return pause is not None and now < pause.until

    def failed(self, error: PhoneError, now: float) -> None:
        """Note what became of an attempt; only throttling makes the next one wait."""
        if error.fault is not Fault.THROTTLED:
            self._kept.pop(error.phone, None)
            return
        last = self._kept.get(error.phone)
        seconds = min(2 * last.seconds, LONGEST_SECONDS) if last else FIRST_SECONDS
        self._kept[error.phone] = _Pause(now + seconds, seconds)

    def succeeded(self, phone: str) -> None:
        self._kept.pop(phone, None)
