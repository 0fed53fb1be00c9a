"""Phones are kept from jobs while `fleetctl check --level 2` or 3 looks at them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
    """The phones that can be looked at; a deep look holds those that a job could take.

    Raises Held if runs hold all of them, and StateError where a deep look cannot hold any.
    """
    from fleetctl.jobs.holding import held, release_forgotten
    from fleetctl.rack.nodesets import fold
    from fleetctl.state import Held, StateError

    if level == 1:
        with suppress(StateError):  # what was found is told first
            release_forgotten(app.state, app.paths.runs)
        yield list(names)
        return
    release_forgotten(app.state, app.paths.runs)

    run = f"{_RUN}{os.getpid()}"
    known = app.state.phones()
    busy = {name: each.run for name, each in known.items() if name in names and each.run}
    if len(busy) == len(names):
        raise Held(busy)
    if busy:
        click.echo(f"{fold(busy)}: at work, left out", err=True)
    free = [name for name in names if name not in busy]
    # A drained phone is safe from jobs already, and a check may find it good again.
    open_ones = [name for name in free if not (name in known and known[name].drains)]
    with held(app.state, app.paths.runs, run, open_ones, f"fleetctl check --level {level}"):
        yield free
