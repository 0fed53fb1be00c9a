"""Name and network of the suite's shared stand-in rack.

Each worker of pytest-xdist has a rack of its own, in the network after that of the one before.
Another first network lets two checkouts run the suite side by side on one machine.
"""

from __future__ import annotations

import os

_FIRST = os.environ.get("PHONERACK_TEST_SUBNET", "10.139.0")
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_A, _B, _C = _FIRST.split(".")
_THIRD = int(_C) + _WORKER

SUBNET = f"{_A}.{_B}.{_THIRD}"
NAME = f"tested-{_B}-{_THIRD}"
