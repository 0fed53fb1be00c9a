"""What became of a process that a test knows the number of."""

from __future__ import annotations

import time
from pathlib import Path


def gone(pid: int) -> bool:
    """Whether the process ends; a killed child of a killed parent takes the reaper a moment."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
