"""`fleetctl exec NODES -- COMMAND`"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, override

import click

from fleetctl.cli.common import App, complete_nodes, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.remote.execute import Executed, Execution

TIMEOUT_SECONDS = 60.0


class BehindDashes(click.Command):
    """What stands behind `--` is the phones' command, whatever it looks like."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        ctx.meta["command"] = args[place + 1 :]
        return super().parse_args(ctx, args[:place])


@click.command(cls=BehindDashes)
@click.argument("nodes", nargs=-1, metavar="NODES... -- COMMAND...", shell_complete=complete_nodes)
@click.option(
    "-t",
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=0.1),
    default=TIMEOUT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="The one limit, for connecting and running.",
)
@click.option("--stream", is_flag=True, help="Show lines as they come, none of them folded.")
@click.option("--no-prefix", is_flag=True, help="With --stream: lines without their phone's name.")
@click.option("--stdin", "with_stdin", is_flag=True, help="Give standard input to every phone.")
@output_option
@click.pass_context
@pass_app
def command(
    app: App,
    ctx: click.Context,
    nodes: tuple[str, ...],
    timeout_seconds: float,
    stream: bool,
    no_prefix: bool,
    with_stdin: bool,
    output: str,
) -> int:
    """Run a command on NODES, all at once, and show equal output once.

    The words behind -- are joined by blanks and given to the phone's shell, as ssh does. What one
    phone alone says is shown as it is. Standard input is not read but with --stdin. When the time
    is over, and on Ctrl-C, the command and all that it began end on the phones; what shall stay is
    started by `setsid`. Phones that failed are `@last-failed` afterwards.

    Ends with 3 when phones failed, 4 when none was reached.
    """
    from fleetctl.cli import exec_view

    line = " ".join(ctx.meta["command"])
    if not line.strip():
        raise click.UsageError("Write the command behind --, such as: fleetctl exec @sw1 -- uptime")
    if (stream and output == "json") or (no_prefix and not stream):
        raise click.UsageError("--stream goes without -o json, and --no-prefix with --stream only.")
    names = app.select_named(nodes)
    given = _standard_input() if with_stdin else b""
    outcomes = asyncio.run(
        _run(app, names, line, timeout_seconds, given, (not no_prefix) if stream else None)
    )
    app.note_failed(f"exec {line}", exec_view.failed(outcomes))
    code = exec_view.exit_code(outcomes)
    # What interrupted it may be that the terminal has gone.
    with suppress(OSError) if code is ExitCode.INTERRUPTED else nullcontext():
        _print(app, line, outcomes, output, stream)
    return code


def _standard_input() -> bytes:
    """All of it, since every phone gets the same."""
    from fleetctl.rack import InputError
    from fleetctl.remote.execute import INPUT_LIMIT_BYTES

    data = sys.stdin.buffer.read(INPUT_LIMIT_BYTES + 1)
    if len(data) > INPUT_LIMIT_BYTES:
        raise InputError(
            f"standard input is larger than {INPUT_LIMIT_BYTES >> 20} MiB, and every phone would "
            "get it; bring large files to phones by `fleetctl data`"
        )
    return data


async def _run(
    app: App,
    names: list[str],
    line: str,
    timeout_seconds: float,
    given: bytes,
    prefixed: bool | None,
) -> dict[str, Executed]:
    """Run it, ended by what ends a program in a terminal. `prefixed` is None without --stream."""
    from fleetctl.cli.exec_view import waiting
    from fleetctl.cli.output import progress
    from fleetctl.cli.signals import end_with_the_terminal
    from fleetctl.remote import Fleet
    from fleetctl.remote.execute import Execution

    through: dict[str, Executed] = {}
    console = progress()
    async with Fleet(app.rack, app.paths) as fleet:
        execution = Execution(fleet, line, timeout_seconds, given)
        end_with_the_terminal(execution)
        if prefixed is not None:
            execution.on_line = _shown(execution, prefixed)
            return await execution.run(names)
        with console.status(waiting(through, names)) as status:

            def on_end(name: str, outcome: Executed) -> None:
                through[name] = outcome
                status.update(waiting(through, names))

            execution.on_end = on_end
            return await execution.run(names)


def _shown(execution: Execution, prefixed: bool) -> Any:
    """Prints lines; a reader that has seen enough, such as `head`, ends the command."""

    def show(name: str, stream: str, text: str) -> None:
        try:
            click.echo(f"{name}: {text}" if prefixed else text, err=stream == "stderr")
        except OSError:
            _be_quiet()
            execution.stop()

    return show


def _be_quiet() -> None:
    """Nobody reads on; Python would complain of that once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print(app: App, line: str, outcomes: dict[str, Executed], output: str, streamed: bool) -> None:
    from fleetctl.cli import exec_view
    from fleetctl.cli.output import print_json, progress

    if output == "json":
        print_json(exec_view.as_json(app.rack.name, line, outcomes))
    elif not streamed:
        _print_output(list(outcomes.values()), exec_view.output_blocks(outcomes))
    console = progress()

    def remark(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    if output != "json" and not streamed:
        for text in exec_view.error_lines(outcomes):
            remark(text)
    for text in exec_view.remarks(outcomes, line):
        remark(text)
    if len(outcomes) > 1:
        remark(exec_view.summary(outcomes))


def _print_output(outcomes: Sequence[Executed], blocks: list[str]) -> None:
    if len(outcomes) == 1:
        click.echo(outcomes[0].stdout, nl=False)
        return
    for block in blocks:
        click.echo(block, nl=False)
