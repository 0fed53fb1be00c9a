"""`fleetctl check controller` and `fleetctl check list`"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli.common import App, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleetctl.checks.controller import Guarding, Serving
    from fleetctl.checks.registry import Outcome

UNITS = Path("/etc/systemd/system")
"""Where site.yml puts the services of this machine."""


@click.command("controller")
@output_option
@pass_app
def check_controller(app: App, output: str) -> int:
    """Check this machine, its network, the package mirror, monitoring, guard and serve.

    Nothing is changed. Ends with 1 when something is wrong that keeps the rack from working.
    """
    outcomes = look_at_controller(app)
    if output == "json":
        from fleetctl.cli.output import print_json

        print_json({"rack": app.rack.name, "checks": outcomes_json(outcomes)})
    else:
        print_outcomes(outcomes)
    bad = any(outcome.result.status == "CRITICAL" for outcome in outcomes)
    return ExitCode.FAILED if bad else ExitCode.DONE


@click.command("list")
@output_option
@pass_app
def check_list(app: App, output: str) -> None:
    """List all checks: what each looks at, its level, limits and cure."""
    import fleetctl.checks.controller
    import fleetctl.checks.packages
    import fleetctl.checks.phone
    import fleetctl.checks.rack  # noqa: F401  they register the checks
    from fleetctl.checks.registry import all_checks
    from fleetctl.cli.output import print_json, print_table

    values = asdict(app.rack.thresholds)
    found: list[dict[str, Any]] = [
        {
            "name": item.name,
            "scope": item.scope,
            "level": item.level,
            "limits": {name: values[name] for name in item.limits},
            "drains": item.drains,
            "cure": item.cure,
            "about": (item.function.__doc__ or "").split("\n\n")[0].replace("\n    ", " "),
        }
        for item in all_checks()
    ]
    if output == "json":
        print_json({"rack": app.rack.name, "checks": found})
        return
    print_table(
        ("CHECK", "SCOPE", "LEVEL", "DRAINS", "LOOKS WHETHER"),
        (
            (
                each["name"],
                each["scope"],
                each["level"],
                "yes" if each["drains"] else "",
                f"{each['about']}{_limits(each['limits'])}",
            )
            for each in found
        ),
    )


def _limits(limits: dict[str, Any]) -> str:
    said = ", ".join(f"{name}: {value}" for name, value in limits.items() if value is not None)
    return f" ({said})" if said else ""


def look_at_controller(app: App) -> list[Outcome]:
    """What every check of scope controller answers."""
    import fleetctl.checks.controller  # noqa: F401  registers the checks
    from fleetctl.checks.controller_look import look
    from fleetctl.checks.registry import run_checks

    facts = asyncio.run(look(app.rack, app.paths))
    facts = replace(facts, guard=_guarding(app), serve=_serving(app))
    return run_checks("controller", facts, app.rack)


def _guarding(app: App) -> Guarding | None:
    from fleetctl.checks.controller import Guarding
    from fleetctl.cli.guard import LATE_SECONDS
    from fleetctl.guard.kept import Kept

    kept, now = Kept(app.paths), time.time()
    saved = kept.saved(now)
    silent_seconds = None if saved is None else now - saved
    try:
        there = kept.owner() is not None
    except OSError:
        return None
    return Guarding(there and (silent_seconds or 0.0) <= LATE_SECONDS, silent_seconds)


def _serving(app: App) -> Serving | None:
    from fleetctl.checks.controller import Serving
    from fleetctl.errors import FleetError
    from fleetctl.serve.lock import server
    from fleetctl.serve.queue import Queue

    unit = UNITS / f"phonerack-serve-{app.rack.name}.service"
    try:
        by = server(app.paths.serve_lock)
        waiting = 0
        if app.paths.queue_db.exists():
            with Queue(app.paths.queue_db) as queue:
                waiting = sum(job.waits for job in queue.jobs())
    except (OSError, FleetError):
        return None
    return Serving(None if by is None else str(by), waiting, unit.exists())


def outcomes_json(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    return [
        {
            "name": one.check.name,
            "status": one.result.status,
            "message": one.result.message,
            "cure": one.check.cure,
        }
        for one in outcomes
    ]


def print_outcomes(outcomes: Iterable[Outcome]) -> None:
    """One line a check; the cure where there is something to cure."""
    from fleetctl.cli.output import print_table

    print_table(
        ("STATUS", "CHECK", "FOUND"),
        (
            (
                one.result.status,
                one.check.name,
                one.result.message
                if one.result.status == "OK"
                else f"{one.result.message}; {one.check.cure}",
            )
            for one in outcomes
        ),
    )
