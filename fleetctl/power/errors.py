"""Why power was not switched, or is not known to be."""

from __future__ import annotations

from typing import ClassVar

from fleetctl.errors import ExitCode, FleetError


class BusyError(FleetError):
    """Phones are held by runs."""

    exit_code: ClassVar[ExitCode] = ExitCode.HELD


class UnverifiedError(FleetError):
    """Switch and phone do not agree on whether the port is off."""


class LatchedError(FleetError):
    """guard has cut phones off for good, until a person clears them."""

    exit_code: ClassVar[ExitCode] = ExitCode.PREFLIGHT_REFUSED
