"""`fleetctl data add|list|check|remove`"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli.common import App, complete_data, nodes_argument, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.jobs.staging import DataOnController
    from fleetctl.provision.data import DataSet
    from fleetctl.remote import PhoneError
    from fleetctl.state import Holding
    from trainer.formats import Survey

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
        print_json({"data": _as_json(data_set, _holders(app)), "changed": changed})
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
    """List the data sets of the rack, and the phones that were last seen to hold them.

    Shards that have changed since they were checked are checked.
    """
    from fleetctl.cli.output import print_json, print_table
    from fleetctl.provision import data

    data_sets = data.list_all(app.paths.data, full=full)
    holders = _holders(app)
    if output == "json":
        print_json({"data": [_as_json(each, holders) for each in data_sets]})
    else:
        columns = ("name", "training", "test", "classes", "image", "kB", "state", "phones")
        print_table(columns, [_row(each, holders) for each in data_sets])
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


@command.command("check")
@click.argument("name", shell_complete=complete_data)
@nodes_argument
@click.option("--quick", is_flag=True, help="Read only the shards that have changed.")
@output_option
@click.pass_context
@pass_app
def check_data(
    app: App, context: click.Context, name: str, nodes: tuple[str, ...], quick: bool, output: str
) -> None:
    """Read data set NAME here and on NODES, else all phones, and compare all checksums.

    Exit code 3 where phones do not answer or have lost some of what they held, 4 if none answers.
    """
    from fleetctl.cli.output import print_json, print_table
    from fleetctl.jobs import staging
    from fleetctl.provision import data
    from trainer.formats import Survey

    names, held = app.select(nodes), _holders(app)
    data.require_name(name)
    here = data.inspect(app.paths.data / name, full=not quick)
    if here.problem:
        raise data.DataSetError(f"{here.problem}; make {name} anew with `fleetctl data add`")
    on_controller = staging.read_data(app.paths.data, name)
    answers = asyncio.run(_ask_phones(app, on_controller, names, full=not quick))
    rows, poor = [], False
    for phone in names:
        words, well = _describe(answers[phone], held.get((phone, name)), on_controller)
        poor |= not well
        rows.append((phone, words))
    if output == "json":
        phones = [{"phone": phone, "state": words} for phone, words in rows]
        print_json({"data": _as_json(here, _holders(app)), "phones": phones})
    else:
        print_table(("phone", "holds"), rows)
    if names and not any(isinstance(answer, Survey) for answer in answers.values()):
        context.exit(ExitCode.NONE_REACHABLE)
    if poor:
        context.exit(ExitCode.SOME_PHONES_FAILED)


@command.command("remove")
@click.argument("name", shell_complete=complete_data)
@nodes_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_app
def remove_data(
    app: App, name: str, nodes: tuple[str, ...], yes: bool, output: str
) -> ExitCode | None:
    """Remove data set NAME from all phones that hold it and from here, or from NODES only.

    Here it stays as long as a phone that holds it does not answer, so that the same call removes
    the rest later; a phone that never returns is forgotten by `playbooks/retire.yml`. A data set
    that a run or a queued job trains on is not removed (exit code 5).
    """
    from fleetctl.cli.output import print_json, progress
    from fleetctl.jobs.removal import remove_from_phones
    from fleetctl.provision import data
    from fleetctl.remote import Fleet

    asked = app.select(nodes) if nodes else None
    data.require_name(name)
    holders = {phone for phone, of in _holders(app) if of == name}
    here = (app.paths.data / name).is_dir()
    if not here and not holders:
        raise data.DataSetError(f"there is no data set {name!r}, here or on a phone")
    _require_unused(app, name)
    phones = asked or [phone for phone in app.rack.phones if phone in holders]
    where = [f"{len(phones)} phones"] if phones else []
    where += ["this controller"] if here and not nodes else []
    if not yes:
        click.confirm(f"Remove data set {name} from {' and '.join(where)}?", err=True, abort=True)
        _require_unused(app, name)  # a job may have come while the question stood there

    async def removed() -> dict[str, PhoneError | str]:
        async with Fleet(app.rack, app.paths) as fleet:
            return await remove_from_phones(fleet, app.state, name, phones)

    failed = {phone: str(why) for phone, why in asyncio.run(removed()).items()} if phones else {}
    gone = not nodes and not failed and data.remove(name, app.paths.data)
    if output == "json":
        told = {phone: {"problem": failed.get(phone)} for phone in phones}
        print_json({"data": name, "phones": told, "controller": gone})
    for why in failed.values():
        progress().print(f"not removed: {why}")
    if failed:
        app.note_failed("data remove", failed)
        all_failed = len(failed) == len(phones)
        return ExitCode.NONE_REACHABLE if all_failed else ExitCode.SOME_PHONES_FAILED
    return None


def _require_unused(app: App, name: str) -> None:
    """Raises DataInUse."""
    from fleetctl.jobs.removal import require_unused
    from fleetctl.serve.queue import Queue, names_of

    with Queue(app.paths.queue_db) as queue:
        require_unused(name, app.paths.runs, names_of(queue.jobs()))


async def _ask_phones(
    app: App, data: DataOnController, names: list[str], *, full: bool
) -> dict[str, Survey | PhoneError | str]:
    from fleetctl.jobs import staging
    from fleetctl.remote import Fleet

    async with Fleet(app.rack, app.paths) as fleet:
        return await staging.check_phones(fleet, app.state, data, names, full=full)


def _describe(
    answer: Survey | PhoneError | str, before: Holding | None, data: DataOnController
) -> tuple[str, bool]:
    """What a phone holds, and whether that is all that it was last seen to hold."""
    from trainer.formats import Survey

    if not isinstance(answer, Survey):
        return str(answer), False
    whole, total = len(answer.whole) if answer.placed else 0, len(data.manifest.shards)
    expected = before.files if before and before.manifest == data.sha256 else 0
    words = "all" if whole == total else f"{whole} of {total} files" if whole else "nothing"
    if whole < expected:
        return f"{words}; {expected} were whole before: launch brings them again", False
    return words, True


def _holders(app: App) -> dict[tuple[str, str], Holding]:
    """(phone, data set) -> what it was last seen to hold."""
    return {(each.phone, each.data): each for each in app.state.holdings()}


def _of_set(
    data_set: DataSet, holders: Mapping[tuple[str, str], Holding]
) -> dict[str, tuple[Holding, bool]]:
    """Phone -> what it holds of a data set, and whether of the version that is here."""
    from fleetctl.jobs.staging import version_of

    version = version_of(data_set.folder)
    return {
        phone: (held, held.manifest == version)
        for (phone, name), held in holders.items()
        if name == data_set.name
    }


def _phones(data_set: DataSet, holders: Mapping[tuple[str, str], Holding]) -> str | None:
    from fleetctl.rack.nodesets import fold

    found = _of_set(data_set, holders)

    def named(phones: Iterable[str], words: str) -> list[str]:
        return [f"{fold(names)}{words}"] if (names := list(phones)) else []

    current = {phone: held for phone, (held, now) in found.items() if now}
    told = named((p for p, h in current.items() if h.files == h.of_files), "")
    told += named((p for p, h in current.items() if h.files < h.of_files), " in part")
    told += named((p for p in found if p not in current), " an older one")
    return ", ".join(told) or None


def _as_json(data_set: DataSet, holders: Mapping[tuple[str, str], Holding]) -> dict[str, Any]:
    from dataclasses import asdict

    phones = [
        {
            "phone": phone,
            "files": held.files,
            "of_files": held.of_files,
            "current": now,
            "time": held.time,
        }
        for phone, (held, now) in _of_set(data_set, holders).items()
    ]
    return {**asdict(data_set), "folder": str(data_set.folder), "phones": phones}


def _row(data_set: DataSet, holders: Mapping[tuple[str, str], Holding]) -> tuple[object, ...]:
    return (
        data_set.name,
        data_set.train_samples,
        data_set.test_samples,
        data_set.classes,
        "x".join(map(str, data_set.shape)),
        data_set.size_bytes // 1000,
        "damaged" if data_set.problem else "whole",
        data_set.problem or _phones(data_set, holders),
    )
