"""Why the state refuses, each with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from fleetctl.errors import ExitCode, FleetError
from fleetctl.state.facts import Drain


class StateError(FleetError):
    """The state database cannot be used."""


class Held(FleetError):
    """Phones belong to other runs; `holders` maps each to its run."""

    exit_code: ClassVar[ExitCode] = ExitCode.HELD

    def __init__(self, holders: Mapping[str, str]) -> None:
        self.holders = dict(holders)
        held = ", ".join(f"{phone} by run {run}" for phone, run in self.holders.items())
        super().__init__(
            f"held: {held}; choose other phones, or `fleetctl stop {next(iter(holders.values()))}`"
        )


class Drained(FleetError):
    """Phones are drained; `drains` maps each to one of its drains."""

    exit_code: ClassVar[ExitCode] = ExitCode.PREFLIGHT_REFUSED

    def __init__(self, drains: Mapping[str, Drain]) -> None:
        self.drains = dict(drains)
        reasons = ", ".join(
            f"{phone} by {drain.who} ({drain.why})" for phone, drain in self.drains.items()
        )
        super().__init__(f"drained: {reasons}; choose other phones, or `fleetctl undrain` them")
