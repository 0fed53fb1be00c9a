"""Entry point of `fleetctl`. Commands are imported only when they are called."""

from __future__ import annotations

import errno
import importlib
import sys
import tempfile
from pathlib import Path
from typing import NoReturn, override

import click

from fleetctl import __version__
from fleetctl.cli.common import App, complete_files
from fleetctl.errors import DISK_TROUBLE, ExitCode, FleetError

# Name -> what it does. The module of the same name in fleetctl.cli holds it as `command`.
COMMANDS = {
    "bench": "Measure network, collectives, compute, scaling, heat.",
    "check": "Check phones, their packages, or the rack file.",
    "data": "Prepare data sets and list them.",
    "drain": "Keep phones out of jobs.",
    "enroll": "Enrol phones: from the box to ssh.",
    "exec": "Run a command on phones, all at once.",
    "guard": "Watch batteries: heat, health, charge.",
    "identify": "Have phones show which they are.",
    "jobs": "List jobs: why they wait, how they end, what they cost.",
    "launch": "Run a job on phones.",
    "logs": "Show the output of a run.",
    "plan": "Forecast a job: how many phones are worth it, how long.",
    "power": "Show what feeds phones, and switch it off and on.",
    "provision": "Bring phones, services, switches to what the rack file says.",
    "report": "Make a page of a run: figures, events, cost.",
    "serve": "Start queued jobs, supervise all, export metrics.",
    "standin": "Run stand-in phones on this machine.",
    "status": "Show phones: state, health, job.",
    "stop": "Stop a run on all its phones, or take it out of the queue.",
    "undrain": "Let drained phones take jobs again.",
}


class LazyGroup(click.Group):
    """Lists commands from the table above, and imports one only to run it."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"fleetctl.cli.{cmd_name}").command
        return command

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--rack",
    "rack_file",
    metavar="FILE",
    shell_complete=complete_files,
    help="Rack file; else $PHONERACK_RACK, inventory/rack.yml, inventory/standin.yml.",
)
@click.version_option(__version__, prog_name="phonerack")
@click.pass_context
def cli(ctx: click.Context, rack_file: str | None) -> None:
    """Manage a rack of phones and train neural networks on it.

    NODES is a node set: phone001, phone[001-006], @sw1, phone[001-138]!@drained,
    @last-failed for the phones that the last command failed on. By state there are @ready, @busy,
    @drained, @suspect, @lost and @needs-hands.

    \b
    Exit codes: 0 done, 1 failed, 2 bad input, 3 some phones failed,
    4 none reachable, 5 held by another run, 6 preflight refused, 130 interrupted.
    """
    ctx.obj = App(rack_file)


def main() -> NoReturn:
    """Run fleetctl and end the process with the right exit code."""
    try:
        code = cli(prog_name="fleetctl", standalone_mode=False)
    except click.Abort:
        _fail("interrupted", ExitCode.INTERRUPTED)
    except click.ClickException as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except FleetError as problem:
        _fail(str(problem), problem.exit_code)
    except OSError as problem:
        if problem.errno not in DISK_TROUBLE:
            raise
        _fail(_about_disk(problem), ExitCode.FAILED)
    sys.exit(code if isinstance(code, int) else ExitCode.DONE)


def _about_disk(problem: OSError) -> str:
    """Which file or folder it is about; a write to an open file does not say."""
    place = problem.filename
    if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
        return f"{place or 'a file'}: {problem.strerror}"
    if place is None:
        from fleetctl.rack.files import is_full
        from fleetctl.rack.paths import phonerack_home

        folders = (phonerack_home(), Path(tempfile.gettempdir()), Path.cwd())
        place = next((folder for folder in folders if is_full(folder)), "a disk")
    return f"{place}: {problem.strerror}; free some space there and do it again"


def _fail(message: str, code: ExitCode) -> NoReturn:
    for line in message.splitlines():
        click.echo(f"fleetctl: {line}", err=True)
    sys.exit(code)
