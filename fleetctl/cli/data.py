"""`fleetctl data add|list`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli.common import App, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.provision.data import DataSet


@click.group()
def command() -> None:
    """Prepare data sets and list them; launch stages them to the phones."""


@command.command("add")
@click.argument("name")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the shuffle before the split into training and test samples.",
)
@output_option
@pass_app
def add_data(app: App, name: str, seed: int, output: str) -> None:
    """Prepare data set NAME (digits: the handwritten digits that scikit-learn ships)."""
    from fleetctl.cli.output import print_json, progress
    from fleetctl.provision import data

    data_set, changed = data.add(name, app.paths.data, seed)
    if output == "json":
        print_json({"data": _as_json(data_set), "changed": changed})
        return
    word = "prepared" if changed else "already there"
    progress().print(
        f"{name}: {word}, {data_set.train_samples} training and {data_set.test_samples} test "
        f"samples in {data_set.folder}"
    )


@command.command("list")
@output_option
@pass_app
@click.pass_context
def list_data(context: click.Context, app: App, output: str) -> None:
    """List the data sets of the rack; every shard is checked."""
    from fleetctl.cli.output import print_json, print_table
    from fleetctl.provision import data

    data_sets = data.list_all(app.paths.data)
    if output == "json":
        print_json({"data": [_as_json(each) for each in data_sets]})
    else:
        columns = ("name", "training", "test", "classes", "seed", "kB", "state")
        print_table(columns, [_row(each) for each in data_sets])
    if any(each.problem for each in data_sets):
        context.exit(ExitCode.FAILED)


def _as_json(data_set: DataSet) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(data_set), "folder": str(data_set.folder)}


def _row(data_set: DataSet) -> tuple[object, ...]:
    return (
        data_set.name,
        data_set.train_samples,
        data_set.test_samples,
        data_set.classes,
        data_set.seed,
        data_set.size_bytes // 1000,
        data_set.problem or "whole",
    )
