"""The platforms by name, as the rack file writes them."""

from __future__ import annotations

import importlib
from functools import cache

from fleetctl.switches.platforms.base import Platform, Running

NAMES = ("cisco_ios", "arista_eos", "unmanaged")
"""Each is a module of this folder that holds a class `Switch`."""


@cache
def platform(name: str) -> Platform:
    """The platform `name`, imported when first asked for."""
    module = importlib.import_module(f"{__name__}.{name}")
    found: Platform = module.Switch()
    return found


__all__ = ["NAMES", "Platform", "Running", "platform"]
