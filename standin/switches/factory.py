"""Switches as they leave their makers."""

from __future__ import annotations

from collections.abc import Sequence

from standin.switches.editor import Kind
from standin.switches.state import Interface, Settings


def factory_settings(kind: Kind, ports: Sequence[str]) -> Settings:
    """The settings of a new switch whose ports bear these names."""
    if kind == "ios":
        interfaces = {name: Interface() for name in ports}
        interfaces["Vlan1"] = Interface(mode="access", shutdown=True)
        return Settings("Switch", interfaces, vtp="server")
    interfaces = {name: Interface(mode="access") for name in ports}
    interfaces["Management1"] = Interface(mode="access")
    return Settings("localhost", interfaces, spanning_tree="mstp", lldp=True)
