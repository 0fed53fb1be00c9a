"""What goes wrong with a switch, said so that a person can mend it."""

from __future__ import annotations

from fleetctl.errors import FleetError


class SwitchError(FleetError):
    """One switch: what happened, where on it, what to do. `switch` is its name in the rack."""

    def __init__(self, switch: str, what: str, cure: str) -> None:
        super().__init__(f"{switch}: {what}; {cure}")
        self.switch = switch
        self.what = what
        self.cure = cure


class UnreadableError(SwitchError):
    """The switch answered something that cannot be taken for what was asked; nothing was sent."""


class RefusedError(SwitchError):
    """The rack file asks for something that this switch cannot be given; nothing was sent."""
