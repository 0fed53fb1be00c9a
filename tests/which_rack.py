"""Name and network of the suite's shared stand-in rack.

Another subnet lets two checkouts run the suite side by side on one machine.
"""

from __future__ import annotations

import os

SUBNET = os.environ.get("PHONERACK_TEST_SUBNET", "10.139.0")
NAME = f"rack-under-test-{SUBNET.split('.')[1]}"
