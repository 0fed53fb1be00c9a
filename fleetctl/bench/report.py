"""What `bench net` found, as one document, and as series to draw."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fleetctl.bench.links import Flow, Spread
from fleetctl.rack import InputError


@dataclass(frozen=True)
class NetReport:
    """`slow` and `trouble` are by phone, `mtu` by pair. `counters` says whether switches told
    of errors and flaps at all."""

    rack: str
    medium: str
    nominal_mbits: float
    alone: Sequence[Flow]
    spreads: Sequence[Spread]
    mtu: Mapping[str, str]
    slow: Mapping[str, str]
    trouble: Mapping[str, str]
    counters: bool
    links: Mapping[str, int | None] = field(default_factory=dict)
    failed: Sequence[str] = ()

    @property
    def fine(self) -> bool:
        return not (self.mtu or self.slow or self.trouble or self.failed)

    def document(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "alone": [
                {
                    "sender": flow.pair.sender,
                    "receiver": flow.pair.receiver,
                    "goodput_mbits": flow.goodput_mbits,
                    "retransmits": flow.retransmits,
                    "problem": flow.problem,
                }
                for flow in self.alone
            ],
        }


def read_spreads(path: Path) -> tuple[str, list[Spread]]:
    """Name and points of a report that `bench net -o json` wrote. Raises InputError."""
    try:
        document = json.loads(path.read_text())
        spreads = [Spread(**point) for point in document["spreads"]]
        return f"{document['rack']}, {document['medium']}", spreads
    except OSError as problem:
        raise InputError(f"{path}: {problem.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} is no report of `fleetctl bench net -o json`") from None
