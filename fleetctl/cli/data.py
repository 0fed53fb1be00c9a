"""`fleetctl data add|list`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli.common import App, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.provision.data import DataSet

# As fleetctl.provision.sources.choose.KINDS, which would import NumPy for `--help`.
KINDS = ("digits", "cifar10", "cifar100", "mnist", "images", "npz")


@click.group()
def command() -> None:
    """Prepare data sets and list them; launch stages them to the phones."""


@command.command("add")
@click.argument("name")
@click.option(
    "--from",
    "path",
    type=click.Path(path_type=Path),
    help="Folder or file that holds it: CIFAR's binary version, MNIST's idx files, a folder of "
    "images a class, an .npz of arrays. Without it only digits, which come with scikit-learn.",
)
@click.option(
    "--kind", type=click.Choice(KINDS), help="What it is, where that cannot be told from its files."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the shuffle, and of the choice of test samples where the source has none.",
)
@click.option("--size", type=click.IntRange(1, 4096), help="Of images: pixels a side.")
@click.option(
    "--fit",
    type=click.Choice(["crop", "squash"]),
    help="Of images that are no squares: cut off (crop, the default), or squash.",
)
@click.option("--skip-broken", is_flag=True, help="Leave out images that cannot be decoded.")
@output_option
@pass_app
def add_data(app: App, name: str, output: str, **options: Any) -> None:
    """Prepare data set NAME, in the rack's folder; nothing is changed where something is wrong."""
    from fleetctl.cli.output import print_json, progress
    from fleetctl.provision import data
    from fleetctl.provision.sources import Options

    chosen = Options(options["size"], options["fit"], options["skip_broken"])
    wish = data.Wish(name, options["path"], options["kind"], options["seed"], chosen)
    with _bars() as show:
        data_set, changed = data.add(wish, app.paths.data, show)
    if output == "json":
        print_json({"data": _as_json(data_set), "changed": changed})
        return
    word = "prepared" if changed else "already there"
    progress().print(
        f"{name}: {word}, {data_set.train_samples} training and {data_set.test_samples} test "
        f"samples in {data_set.folder}"
    )
    if data_set.skipped:
        progress().print(
            f"{data_set.skipped} broken images were left out: {data_set.folder / data.SKIPPED}"
        )


@command.command("list")
@click.option("--full", is_flag=True, help="Read every shard, also those that did not change.")
@output_option
@pass_app
@click.pass_context
def list_data(context: click.Context, app: App, full: bool, output: str) -> None:
    """List the data sets of the rack; shards that have changed since are checked."""
    from fleetctl.cli.output import print_json, print_table
    from fleetctl.provision import data

    data_sets = data.list_all(app.paths.data, full=full)
    if output == "json":
        print_json({"data": [_as_json(each) for each in data_sets]})
    else:
        columns = ("name", "training", "test", "classes", "image", "seed", "kB", "state")
        print_table(columns, [_row(each) for each in data_sets])
    if any(each.problem for each in data_sets):
        context.exit(ExitCode.FAILED)


def _bars() -> Any:
    """A context that gives a function which shows how far each part is."""
    from contextlib import contextmanager

    from rich.progress import Progress

    from fleetctl.cli.output import progress

    @contextmanager
    def shown() -> Any:
        with Progress(console=progress(), transient=True) as bars:
            tasks: dict[str, Any] = {}

            def show(what: str, done: int, total: int) -> None:
                if what not in tasks:
                    tasks[what] = bars.add_task(what, total=total)
                bars.update(tasks[what], completed=done)

            yield show

    return shown()


def _as_json(data_set: DataSet) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(data_set), "folder": str(data_set.folder)}


def _row(data_set: DataSet) -> tuple[object, ...]:
    return (
        data_set.name,
        data_set.train_samples,
        data_set.test_samples,
        data_set.classes,
        "x".join(map(str, data_set.shape)),
        data_set.seed,
        data_set.size_bytes // 1000,
        data_set.problem or "whole",
    )
