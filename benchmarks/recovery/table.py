"""The fault matrix as a table of a page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- recovery: begin -->", "<!-- recovery: end -->"
COLUMNS = (
    *("fault", "cells", "finished", "right phone named", "process left", "noticed after, s"),
    *("from there to the next iteration, s", "cold launch, s", "iterations lost"),
    "loss beside an undisturbed run",
)
HEAD = f"| {' | '.join(COLUMNS)} |\n|---|---:|---:|---:|---:|---|---|---|---|---|\n"


def spread(values: Sequence[float | None]) -> str:
    """`median (worst)` of the values that there are."""
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.0f} ({max(known):.0f})" if known else ""


def row(kind: str, cells: Sequence[dict[str, Any]]) -> str:
    counts = (
        len(cells),
        sum(cell["finished"] for cell in cells),
        sum(cell["right"] for cell in cells),
        sum(bool(cell["left_over"]) for cell in cells),
    )
    times = ("noticed_seconds", "recovered_seconds", "cold_seconds", "lost_iterations")
    columns = [str(count) for count in counts]
    columns += [spread([cell[name] for cell in cells]) for name in times]
    apart = [cell["deviation"] for cell in cells if cell.get("deviation") is not None]
    columns.append(f"{max(apart):.1e}" if apart else "")
    return f"| {kind} | {' | '.join(columns)} |\n"


def table(cells: Sequence[dict[str, Any]], kinds: Sequence[str]) -> str:
    rows = [row(kind, own) for kind in kinds if (own := [c for c in cells if c["kind"] == kind])]
    return HEAD + "".join(rows)


def write_table(cells: Sequence[dict[str, Any]], kinds: Sequence[str], page: Path) -> None:
    """Put the table between its marks in the page."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{table(cells, kinds)}{END}{after}")
