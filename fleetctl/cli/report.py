"""`fleetctl report [RUN]`"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli.common import App, output_option, pass_app, run_argument

if TYPE_CHECKING:
    from fleetctl.jobs.runs import RunFolder


@click.command()
@run_argument
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the page goes; else report.html in the run's folder.",
)
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write the figures as SVG and PNG, too.",
)
@output_option
@pass_app
def command(
    app: App, run_name: str | None, file: Path | None, figures: Path | None, output: str
) -> None:
    """Make one page of a run, the newest one by default: how it learned, how fast, how warm its
    phones were, what happened, what it cost, how to run it again. Needs no network to read.

    RUN is the name of a run, or a folder that was copied from elsewhere. Nothing but that folder
    is asked, so a run that goes on is shown as far as it is known here.
    """
    from fleetctl.bench.page import REPORT_FILE
    from fleetctl.bench.run import page
    from fleetctl.bench.run.digest import digest
    from fleetctl.bench.run.figures import figures as draw
    from fleetctl.bench.run.record import read_run
    from fleetctl.cli.output import print_json

    run = _folder(app, run_name)
    record = read_run(run, time.time())
    told = digest(record)
    drawn = draw(record, told)
    target = page.write_report(record, told, drawn, file or run.path / REPORT_FILE)
    if figures:
        page.write_figures(drawn, figures)
    for sentence in record.missing:
        click.echo(f"{run.name}: {sentence}", err=True)
    if output == "json":
        print_json({"page": str(target), **page.document(record, told)})
    else:
        click.echo(str(target))


def _folder(app: App, name: str | None) -> RunFolder:
    from fleetctl.bench.document import BENCH_FILE
    from fleetctl.jobs import runs
    from fleetctl.rack import InputError

    path = Path(name) if name and "/" in name else app.paths.runs / (name or "")
    if name and (path / BENCH_FILE).exists():
        raise InputError(f"{path.name} is a bench; `fleetctl bench report {name}` makes its page")
    if name and "/" in name:
        if not path.is_dir():
            raise InputError(f"there is no folder {path}")
        return runs.RunFolder(path.resolve())
    if name and path.is_dir() and not runs.RunFolder(path).events():
        raise InputError(
            f"{name} has not begun, so there is nothing to report; `fleetctl jobs {name}` says why"
        )
    return runs.find(app.paths.runs, name)
