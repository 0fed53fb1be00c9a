"""Switches that nobody can log in on: nothing is configured, and cabling stays unknown."""

from __future__ import annotations

from typing import NoReturn

from fleetctl.switches.config import Config
from fleetctl.switches.errors import RefusedError
from fleetctl.switches.intent import SwitchIntent
from fleetctl.switches.platforms.base import Platform


class Switch(Platform):
    """Has ports, and that is all that is known of it."""

    name = "unmanaged"
    configurable = False

    def interfaces(self, ports: int) -> tuple[str, ...]:
        return tuple(str(number) for number in range(1, ports + 1))

    def long_name(self, interface: str) -> str:
        return interface

    def intended(self, _: SwitchIntent) -> Config:
        return {}

    def read(self, _: str, intent: SwitchIntent) -> NoReturn:
        raise _nothing_to_read(intent.switch)

    def driver(self) -> NoReturn:
        raise _nothing_to_read("an unmanaged switch")

    def weight(self, _: str) -> int:
        return 0


def _nothing_to_read(switch: str) -> RefusedError:
    return RefusedError(
        switch, "an unmanaged switch has no configuration", "give it a platform in the rack file"
    )
