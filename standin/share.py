"""How much of the host's processors one phone gets, so that its speed does not hang on the rest."""

from __future__ import annotations

import math

from standin.engine import CpuLimit

QUOTA_PHONES_LIMIT = 16
"""With more phones than this a fixed share is too small to be kept; then there is none."""

# The usual period of 100 ms stops a phone in mid-exchange for tens of milliseconds.
PERIOD_MICROSECONDS = 10_000
_KERNEL_LEAST_QUOTA_MICROSECONDS = 1_000
_KERNEL_LEAST_SHARE = 0.001
"""Its least quota in its longest period of 1 s."""


def cpu_limit(cores: int, phones: int, speed: float = 1.0) -> CpuLimit | None:
    """The limit of one of `phones` phones on `cores` cores at `speed` (1.0 is its full share).

    None above QUOTA_PHONES_LIMIT. The period grows where the kernel would refuse a smaller quota.
    """
    if phones > QUOTA_PHONES_LIMIT:
        return None
    share = max(cores / phones * speed, _KERNEL_LEAST_SHARE)
    period = max(PERIOD_MICROSECONDS, math.ceil(_KERNEL_LEAST_QUOTA_MICROSECONDS / share))
    return CpuLimit(quota_microseconds=round(share * period), period_microseconds=period)
