"""The rack file as a model. Pure values; only the loader reads files."""

from fleetctl.rack.errors import InputError, Mistake, RackError
from fleetctl.rack.loader import find_rack_file, load_rack
from fleetctl.rack.model import Network, Phone, Rack, Switch, Thresholds, Versions
from fleetctl.rack.outlets import GuardLimits, Outlet
from fleetctl.rack.paths import RackPaths, phonerack_home

__all__ = [
    "GuardLimits",
    "InputError",
    "Mistake",
    "Network",
    "Outlet",
    "Phone",
    "Rack",
    "RackError",
    "RackPaths",
    "Switch",
    "Thresholds",
    "Versions",
    "find_rack_file",
    "load_rack",
    "phonerack_home",
]
