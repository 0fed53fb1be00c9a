"""MAC addresses in one form, however a switch or a phone writes them."""

from __future__ import annotations

import re


def normal_mac(text: str) -> str:
    """`aabb.ccdd.eeff`, `AA-BB-…` and the like as `aa:bb:cc:dd:ee:ff`. Raises ValueError."""
    digits = re.sub(r"[:.-]", "", text).lower()
    if not re.fullmatch(r"[0-9a-f]{12}", digits):
        raise ValueError(f"`{text}` is no MAC address")
    return ":".join(digits[place : place + 2] for place in range(0, 12, 2))
