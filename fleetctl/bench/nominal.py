"""What a good link of a rack carries."""

from __future__ import annotations

import json

from fleetctl.rack import RackPaths

GIGABIT_MBITS = 1000.0
_MBITS = {"kbit": 0.001, "mbit": 1.0, "gbit": 1000.0}


def nominal_mbits(paths: RackPaths) -> float:
    """In Mb/s. A stand-in's links are shaped to what its record says, phones have a gigabit."""
    try:
        rate = json.loads((paths.standin / "up.json").read_text())["rate"]
    except (OSError, ValueError, KeyError):
        return GIGABIT_MBITS
    return float(rate[:-4]) * _MBITS[rate[-4:]] if rate else GIGABIT_MBITS
