"""Phones are kept from jobs while `fleetctl check --level 2` or 3 looks at them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fleetctl.cli.common import App

_RUN = "check-"


def is_ours(run: str) -> bool:
    """Whether phones are held by this process's check."""
    return run == f"{_RUN}{os.getpid()}"


@contextmanager
def held_for_check(app: App, names: Sequence[str], level: int) -> Iterator[list[str]]:
    """The phones that can be looked at; a deep look holds those that a job could take."""
    _free_what_was_left(app)
    if level == 1:
        yield list(names)
        return
    from fleetctl.rack.nodesets import fold

    run = f"{_RUN}{os.getpid()}"
    known = app.state.phones()
    busy = [name for name in names if name in known and known[name].run]
    if busy:
        click.echo(f"{fold(busy)}: at work, left out", err=True)
    free = [name for name in names if name not in busy]
    # A drained phone is safe from jobs already, and a check may find it good again.
    open_ones = [name for name in free if not (name in known and known[name].drains)]
    app.state.allocate(run, open_ones, why=f"fleetctl check --level {level}")
    try:
        yield free
    finally:
        app.state.release(run)


def _free_what_was_left(app: App) -> None:
    """Give back the phones of checks that were killed: nobody else would."""
    runs = {known.run for known in app.state.phones().values() if known.run}
    for run in runs:
        process = run.removeprefix(_RUN)
        if run.startswith(_RUN) and process.isdigit() and not _is_check(int(process)):
            app.state.release(run, why="that check was killed")


def _is_check(process: int) -> bool:
    try:
        return b"fleetctl" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
