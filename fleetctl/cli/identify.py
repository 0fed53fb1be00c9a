"""`fleetctl identify NODES`: which of the phones in the rack it is."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, nodes_argument, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.remote.execute import Executed

LIMIT_OF_CALL_SECONDS = 5
"""Termux:API's tools never return where its app is missing."""

SILENT = 124
"""What `timeout` ends with when the tool did not return."""

_START = {
    "torch": "torch on",
    "vibration": "vibrate -f -d 800",
    "screen": "toast -g middle {name}",
}
_END = {"torch": "torch off"}
_COMMAND = """\
call() {{ timeout {limit} termux-"$@" || {{ code=$?; end; exit "$code"; }}; }}
end() {{ {end}; }}
trap 'end; exit 0' TERM
until=$(($(date +%s) + {seconds}))
while [ "$(date +%s)" -lt "$until" ]; do call {start}; sleep 1; end; sleep 1; done
"""


def shell_line(name: str, way: str, seconds: int) -> str:
    """What the phone runs. A torch is off in the end, however that comes: its call has a session of
    its own, so that it outlives a command that is ended."""
    end = f"setsid timeout {LIMIT_OF_CALL_SECONDS} termux-{_END[way]}" if way in _END else ":"
    start = _START[way].format(name=shlex.quote(name))
    return _COMMAND.format(limit=LIMIT_OF_CALL_SECONDS, start=start, end=end, seconds=seconds)


def problem(name: str, outcome: Executed) -> str | None:
    """Why a phone did not show itself; None if it did."""
    if outcome.error is not None:
        return str(outcome.error)
    if outcome.ok or outcome.interrupted:
        return None
    if outcome.exit_code == SILENT:
        return f"{name}: Termux:API does not answer: install its app, and open it once on the phone"
    if outcome.exit_code == 127:
        return f"{name} lacks the package termux-api: run site.yml -t termux"
    said = outcome.stderr.strip().splitlines()
    return f"{name}: exit code {outcome.exit_code}" + (f": {said[-1]}" if said else "")


@click.command()
@nodes_argument
@click.option(
    "--by",
    "way",
    type=click.Choice(["torch", "vibration", "screen"]),
    default="torch",
    show_default=True,
    help="How: the screen shows the phone's name, if it is on.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1, 3600),
    default=30,
    show_default=True,
    help="How long; Ctrl-C ends it.",
)
@output_option
@pass_app
def command(app: App, nodes: tuple[str, ...], way: str, seconds: int, output: str) -> int:
    """Have NODES show themselves: their torch blinks, they vibrate, or the screen says their name.

    Phones that could not are `@last-failed` afterwards. Ends with 3 when some could not, 4 when
    none was reached.
    """
    from fleetctl.cli import exec_view
    from fleetctl.cli.output import print_json, progress
    from fleetctl.rack.nodesets import fold, fold_sentences

    names = app.select_named(nodes)
    console = progress()
    console.print(f"{fold(names)}: {way}, for {seconds} s", markup=False)
    outcomes = asyncio.run(_show(app, names, way, seconds))
    problems = {
        name: said for name, outcome in outcomes.items() if (said := problem(name, outcome))
    }
    app.note_failed("identify", list(problems))
    for line in fold_sentences(problems.items()):
        console.print(line, markup=False, soft_wrap=True)
    if output == "json":
        phones = {
            name: {"shown": name not in problems, "problem": problems.get(name)} for name in names
        }
        print_json({"rack": app.rack.name, "way": way, "phones": phones})
    if not problems and not any(outcome.interrupted for outcome in outcomes.values()):
        return ExitCode.DONE
    return exec_view.exit_code(outcomes)


async def _show(app: App, names: list[str], way: str, seconds: int) -> dict[str, Executed]:
    from fleetctl.cli.signals import end_with_the_terminal
    from fleetctl.remote import Fleet
    from fleetctl.remote.execute import Execution

    limit = seconds + 4 * LIMIT_OF_CALL_SECONDS
    async with Fleet(app.rack, app.paths) as fleet:
        executions = {
            name: Execution(fleet, shell_line(name, way, seconds), limit) for name in names
        }
        end_with_the_terminal(*executions.values())
        found = await asyncio.gather(*(each.run([name]) for name, each in executions.items()))
    return {name: outcome for outcomes in found for name, outcome in outcomes.items()}
