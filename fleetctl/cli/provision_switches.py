"""`fleetctl provision switches`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, complete_switches, output_option, pass_app
from fleetctl.cli.switch_options import SwitchOptions, switch_options
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleetctl.switches.errors import SwitchError
    from fleetctl.switches.fleet import Switches
    from fleetctl.switches.job import Report


@click.command("switches")
@click.argument("names", nargs=-1, metavar="[SWITCH]...", shell_complete=complete_switches)
@click.option("-C", "--check", "dry", is_flag=True, help="Only say what would be sent.")
@click.option("-D", "--diff", is_flag=True, help="Show the configuration before and after.")
@click.option("--backups", is_flag=True, help="List the backups instead, newest first.")
@click.option(
    "--restore",
    metavar="BACKUP",
    help="Bring the one SWITCH named back to a backup: a file, or a date from --backups.",
)
@switch_options()
@output_option
@pass_app
def switches(
    app: App,
    names: tuple[str, ...],
    dry: bool,
    diff: bool,
    backups: bool,
    restore: str | None,
    login: SwitchOptions,
    output: str,
) -> int:
    """Configure the SWITCHes named, else all managed ones, side by side.

    A change that is not confirmed is taken back by the switch itself; whatever fails ends in the
    old configuration. Backups are kept of before and after. Passwords come from the vault or the
    environment. Ends with 1 when a switch failed.
    """
    from fleetctl.cli.output import progress

    if restore and len(names) != 1:
        raise click.UsageError("Name the one switch that shall return to the backup.")
    console = progress()
    fleet = login.switches(app, lambda switch, text: console.print(f"{switch}: {text}"))
    if backups:
        _list_backups(app, fleet, names, output)
        return ExitCode.DONE
    file = _backup(fleet, names[0], restore) if restore else None
    answers = fleet.provision(names, dry=dry, restore=file)
    if output == "json":
        _print_json(app, answers)
    else:
        _print_text(answers, diff)
    return ExitCode.FAILED if _failures(answers) else ExitCode.DONE


def _backup(fleet: Switches, switch: str, name: str) -> Path:
    """A backup by its path or its date. Raises InputError."""
    from fleetctl.rack import InputError

    fleet.managed([switch])
    places = (Path(name), fleet.folder(switch) / f"{name}.cfg")
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise InputError(
            f"no backup {name} of {switch}; `fleetctl provision switches --backups {switch}` "
            "lists those that there are"
        )
    return found


def _list_backups(app: App, fleet: Switches, names: tuple[str, ...], output: str) -> None:
    from fleetctl.cli.output import print_json, print_table
    from fleetctl.switches.backups import list_backups

    kept = {switch.name: list_backups(fleet.folder(switch.name)) for switch in fleet.managed(names)}
    if output == "json":
        paths = {name: [str(path) for path in found] for name, found in kept.items()}
        print_json({"rack": app.rack.name, "backups": paths})
        return
    print_table(
        ("SWITCH", "BACKUP", "FILE"),
        ((name, path.stem, path) for name, found in kept.items() for path in found),
    )


def _failures(answers: Mapping[str, Report | SwitchError]) -> dict[str, SwitchError]:
    from fleetctl.switches.errors import SwitchError

    return {name: answer for name, answer in answers.items() if isinstance(answer, SwitchError)}


def _reports(answers: Mapping[str, Report | SwitchError]) -> list[Report]:
    from fleetctl.switches.job import Report

    return [answer for answer in answers.values() if isinstance(answer, Report)]


def _print_json(app: App, answers: Mapping[str, Report | SwitchError]) -> None:
    from fleetctl.cli.output import print_json

    print_json(
        {
            "rack": app.rack.name,
            "switches": {
                report.switch: {
                    "result": report.result,
                    "commands": list(report.change.commands),
                    "notes": list(report.notes),
                    "seconds": round(report.seconds, 1),
                }
                for report in _reports(answers)
            },
            "failures": {name: str(problem) for name, problem in _failures(answers).items()},
        }
    )


def _print_text(answers: Mapping[str, Report | SwitchError], diff: bool) -> None:
    from fleetctl.cli.output import print_table, progress

    if diff:
        for report in _reports(answers):
            click.echo(_diff(report), nl=False)
    failures = _failures(answers)
    rows: list[tuple[str, str, int | None, str | None]] = [
        (name, "failed", None, None) for name in failures
    ]
    rows += [
        (report.switch, report.result, len(report.change.commands), f"{report.seconds:.1f}")
        for report in _reports(answers)
    ]
    print_table(("SWITCH", "RESULT", "LINES", "SECONDS"), sorted(rows))
    for report in _reports(answers):
        for note in report.notes:
            progress().print(f"{report.switch}: {note}", markup=False)
    for problem in failures.values():
        progress().print(str(problem), style="red", markup=False)


def _diff(report: Report) -> str:
    """As `diff -u` shows it; secrets stand as markers in it."""
    import difflib

    before, after = (text.splitlines(keepends=True) for text in report.change.diff_texts())
    was, is_wanted = f"{report.switch} as it is", f"{report.switch} as it shall be"
    return "".join(difflib.unified_diff(before, after, was, is_wanted))
