"""Data goes to stdout as a table or as JSON; progress and remarks go to stderr."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fleetctl.state import Drain

SCHEMA = 1
"""Version of every JSON document that fleetctl prints; it grows when a key changes or goes."""


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on stdout, with its schema number."""
    click.echo(json.dumps({"schema": SCHEMA, **document}, indent=2))


def print_drains(drains: Mapping[str, Iterable[Drain]]) -> None:
    """Phones and what keeps each out of new jobs now, as a JSON document."""
    phones = [
        {"name": name, "drains": [asdict(drain) for drain in held]} for name, held in drains.items()
    ]
    print_json({"phones": phones})


def make_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A plain table; None shows as `-`, so that nobody takes unknown for zero.

    Only the last column wraps: put the longest there.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns, 1):
        table.add_column(column, no_wrap=place < len(columns))
    for row in rows:
        table.add_row(*("-" if cell is None else str(cell) for cell in row))
    return table


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    stdout().print(make_table(columns, rows))


def stdout() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def progress() -> Console:
    """Where progress, warnings and remarks go, so that stdout holds nothing but data."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)
