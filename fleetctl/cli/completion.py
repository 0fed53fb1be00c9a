"""What the shell offers after TAB: phones, groups and runs of the chosen rack.

A rack file that is wrong, or that is not there, offers nothing: TAB is no place for complaints.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from fleetctl.cli.common import App
from fleetctl.errors import FleetError

if TYPE_CHECKING:
    from fleetctl.rack import RackPaths


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
    """Names of runs, newest first, then of jobs that wait."""
    from fleetctl.jobs import runs

    try:
        paths = _app(ctx).paths
        names = [run.name for run in runs.all_runs(paths.runs)] + _waiting(paths)
    except (FleetError, OSError):
        return []
    return [name for name in dict.fromkeys(names) if name.startswith(text)]


def _waiting(paths: RackPaths) -> list[str]:
    from fleetctl.serve.queue import Queue

    if not paths.queue_db.is_file():
        return []
    with Queue(paths.queue_db) as queue:
        return [entry.name for entry in queue.jobs()]


def complete_data(ctx: click.Context, _param: click.Parameter, text: str) -> list[str]:
    """Names of data sets."""
    try:
        folder = _app(ctx).paths.data
    except (FleetError, OSError):
        return []
    names = sorted(path.name for path in folder.glob("[!.]*") if path.is_dir())
    return [name for name in names if name.startswith(text)]


def complete_switches(ctx: click.Context, _param: click.Parameter, text: str) -> list[str]:
    """Names of switches that can be configured."""
    try:
        switches = _app(ctx).rack.switches.values()
    except (FleetError, OSError):
        return []
    managed = [switch.name for switch in switches if switch.platform != "unmanaged"]
    return [name for name in managed if name.startswith(text)]


def complete_files(_ctx: click.Context, _param: click.Parameter, text: str) -> list[CompletionItem]:
    """The shell's own completion of files."""
    return [CompletionItem(text, type="file")]


def split_node_set(text: str) -> tuple[str, str]:
    """What stands before the last name of a node set, and the beginning of that name. Pure."""
    inside = re.sub(r"\[[^\]]*(\]|$)", lambda found: "_" * len(found[0]), text)
    start = max((found.end() for found in re.finditer(r"[,!&^]", inside)), default=0)
    return text[:start], text[start:]


def _app(ctx: click.Context) -> App:
    """The command is not called yet, so nobody has chosen the rack but the words before it."""
    return App(ctx.find_root().params.get("rack_file"))
