"""What the shell offers after TAB: phones, groups and runs of the chosen rack.

A rack file that is wrong, or that is not there, offers nothing: TAB is no place for complaints.
"""

from __future__ import annotations

import re

import click

from fleetctl.cli.common import App
from fleetctl.errors import FleetError


def complete_nodes(ctx: click.Context, _param: click.Parameter, text: str) -> list[str]:
    """Names and groups for the last part of a node set, with what stands before it."""
    before, part = split_node_set(text)
    try:
        app = _app(ctx)
        names = list(app.rack.phones)
        groups = [f"@{group}" for group in (*app.rack.groups, *app.groups())]
    except (FleetError, OSError):
        return []
    if "[" in part:
        return []
    return [f"{before}{word}" for word in (*names, *groups) if word.startswith(part)]


def complete_runs(ctx: click.Context, _param: click.Parameter, text: str) -> list[str]:
    """Names of runs, newest first."""
    from fleetctl.jobs import runs

    try:
        found = runs.all_runs(_app(ctx).paths.runs)
    except (FleetError, OSError):
        return []
    return [run.name for run in found if run.name.startswith(text)]


def split_node_set(text: str) -> tuple[str, str]:
    """What stands before the last name of a node set, and the beginning of that name. Pure."""
    inside = re.sub(r"\[[^\]]*(\]|$)", lambda found: "_" * len(found[0]), text)
    start = max((found.end() for found in re.finditer(r"[,!&^]", inside)), default=0)
    return text[:start], text[start:]


def _app(ctx: click.Context) -> App:
    """The command is not called yet, so nobody has chosen the rack but the words before it."""
    return App(ctx.find_root().params.get("rack_file"))
