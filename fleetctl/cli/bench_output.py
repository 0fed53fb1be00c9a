"""What `fleetctl bench` prints at its end, and the report beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.bench.document import Bench


def finish(app: App, bench: Bench, folder: Path, output: str) -> ExitCode:
    """Profile, report and table of a bench; 3 when a part of it failed, 1 when all did."""
    from fleetctl.bench import page, profile
    from fleetctl.bench.tables import columns_of, tables
    from fleetctl.cli.output import print_json, print_table, stdout

    profile.keep(bench, folder, app.paths.dir)
    report = page.write([bench], [folder.name], folder / page.REPORT_FILE)
    found = tables(bench)
    if output == "json":
        print_json({"run": folder.name, **json.loads(bench.to_json())})
    else:
        for place, table in enumerate(found):
            if place:
                stdout().print()
            print_table(columns_of(table), table.rows)
    for problem in bench.problems:
        click.echo(f"problem: {problem}", err=True)
    click.echo(f"{folder.name}: {report}", err=True)
    if not bench.problems:
        return ExitCode.DONE
    return ExitCode.SOME_PHONES_FAILED if found else ExitCode.FAILED


@click.command("report")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the page goes; else into the folder of the first RUN.",
)
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write the figures as SVG and PNG, too.",
)
@pass_app
def report(app: App, runs: tuple[str, ...], file: Path | None, figures: Path | None) -> None:
    """Make one page of benches: figures, tables, where they come from. Needs no network to read.

    RUN is the name of a bench, such as bench-scaling-2, or a folder that was copied from elsewhere.
    """
    from fleetctl.bench import page
    from fleetctl.bench.document import read_bench

    folders = [Path(run) if "/" in run else app.paths.runs / run for run in runs]
    benches = [read_bench(folder) for folder in folders]
    target = file or folders[0] / page.REPORT_FILE
    page.write(benches, [folder.name for folder in folders], target)
    if figures:
        page.write_figures(benches, [folder.name for folder in folders], figures)
    click.echo(str(target))
