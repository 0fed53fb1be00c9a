"""How the last checks of cabling and packages ended, for the exporter: one small file a rack."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from fleetctl.rack.files import write_atomic


@dataclass(frozen=True, slots=True)
class Checked:
    """`findings`: so much was wrong; `time` in seconds since the epoch."""

    time: float
    findings: int


def note(path: Path, check: str, findings: int, now: float | None = None) -> None:
    """Keep the result; that of another check made at the same moment may be lost."""
    known = dict(read(path))
    known[check] = Checked(time.time() if now is None else now, findings)
    document = {name: asdict(each) for name, each in known.items()}
    write_atomic(path, json.dumps({"version": 1, "checks": document}, indent=2) + "\n")


def read(path: Path) -> Mapping[str, Checked]:
    """What is known, by check; nothing where the file is missing or damaged."""
    try:
        document = json.loads(path.read_text())
        return {name: Checked(**each) for name, each in document["checks"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
