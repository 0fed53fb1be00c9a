"""What feeds the phones: outlets that a command switches, and the limits that guard keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PLACEHOLDERS = ("{phone}", "{outlet}", "{state}")
"""What a command may hold: the first phone of the outlet, the outlet's name, `on` or `off`."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """One outlet. `command` is an argument list with placeholders; it never meets a shell."""

    name: str
    phones: tuple[str, ...]
    command: tuple[str, ...]
    limit_seconds: float = 5.0

    def argv(self, on: bool) -> list[str]:
        """The command that switches it."""
        values = (self.phones[0], self.name, "on" if on else "off")
        return [_filled(word, values) for word in self.command]


def _filled(word: str, values: Iterable[str]) -> str:
    for placeholder, value in zip(PLACEHOLDERS, values, strict=True):
        word = word.replace(placeholder, value)
    return word


def outlet_of(outlets: Mapping[str, Outlet]) -> dict[str, str]:
    """Phone -> the outlet that feeds it."""
    return {phone: outlet.name for outlet in outlets.values() for phone in outlet.phones}


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """What `fleetctl guard` keeps. Temperatures are the batteries'.

    At `warn` it says so, at `drain` the phone takes no jobs and its job is ended, at `cut` its
    job is killed and its power cut at once. Idle phones are charged from `charge_low` to
    `charge_high`, at most `max_charging` of them at a time (None: all); a high of 100 leaves
    charging to the phones. Each phone is asked every `poll_seconds`; one that is charged and
    says nothing for `silent_seconds` is unsafe. `call` is a command that calls a person; its
    words may hold `{message}` and `{phones}`.
    """

    warn_celsius: float = 40.0
    drain_celsius: float = 45.0
    cut_celsius: float = 50.0
    charge_low_percent: float = 40.0
    charge_high_percent: float = 60.0
    max_charging: int | None = None
    poll_seconds: float = 10.0
    silent_seconds: float = 180.0
    call: tuple[str, ...] = ()
