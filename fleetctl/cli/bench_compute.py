"""`fleetctl bench compute`"""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import click

from fleetctl.cli.bench_options import IMAGE, LIMIT, Many, Size, known_models, on_phones
from fleetctl.cli.common import App, nodes_argument, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from fleetctl.bench.compute import ComputeWish
    from fleetctl.bench.document import ComputeBench
    from fleetctl.bench.session import Session


@click.command("compute")
@nodes_argument
@click.option("--models", type=Many(click.STRING), required=True, help="Models by name.")
@click.option(
    "--image",
    "shape",
    type=IMAGE,
    default="3x224x224",
    show_default=True,
    help="Shape of an image: channels, height, width.",
)
@click.option("--classes", type=click.IntRange(2), default=1000, show_default=True)
@click.option("--batches", type=Many(click.IntRange(1)), default="8", show_default=True)
@click.option("--threads", type=Many(click.IntRange(1, 64)), default="1", show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(1),
    default=60.0,
    show_default=True,
    help="For each case; phones slow down when they get hot, so give them time.",
)
@click.option("--largest", is_flag=True, help="Look for the largest batch that fits, too.")
@click.option("--most", type=click.IntRange(1), default=512, show_default=True, help="No larger.")
@click.option("--memory", "memory_bytes", type=Size(), help="A step may take no more than this.")
@click.option("--device", default="cpu", show_default=True, help="A device of torch.")
@click.option("--here", is_flag=True, help="On this machine, to stand beside the phones.")
@click.option("--python", default=sys.executable, help="With --here: a Python that has torch.")
@click.option(
    "--limit",
    "limit_seconds",
    type=LIMIT,
    show_default="twice what the cases take, and time for all around them",
    help="Seconds that all of it may take.",
)
@output_option
@pass_app
def compute(
    app: App,
    nodes: tuple[str, ...],
    models: tuple[str, ...],
    shape: tuple[int, ...],
    classes: int,
    batches: tuple[int, ...],
    threads: tuple[int, ...],
    seconds: float,
    largest: bool,
    most: int,
    memory_bytes: int | None,
    device: str,
    here: bool,
    python: str,
    limit_seconds: float | None,
    output: str,
) -> int:
    """Time training steps of NODES, else of all ready phones, each by itself.

    Forward, backward and optimiser, burst and sustained, with the temperature before and after.
    With --here, of this machine, on its GPU by `--device cuda`; `fleetctl bench report` shows both
    on one page. The largest batch is tried in a process of its own that may take 60 % of the free
    memory, so no phone runs out of it. On stand-ins, which share one machine, give --memory.
    """
    from fleetctl.bench import compute as bench
    from fleetctl.cli.bench_output import finish
    from trainer.formats import Input, MemorySearch

    if here and nodes:
        raise click.UsageError("--here is this machine, NODES are phones: give one of them.")
    wish = bench.ComputeWish(
        known_models(models, Input(shape, classes)),
        Input(shape, classes),
        batches,
        threads,
        seconds,
        device,
        MemorySearch(most, limit_bytes=memory_bytes) if largest else None,
    )
    limit = limit_seconds or wish.limit_seconds
    if here:
        return finish(app, *_here(app, wish, python, limit), output)

    async def work(session: Session) -> ComputeBench:
        return await bench.measure(session, wish)

    found = on_phones(app, nodes, "compute", work, limit)
    return ExitCode.INTERRUPTED if found is None else finish(app, *found, output)


def _here(
    app: App, wish: ComputeWish, python: str, limit_seconds: float
) -> tuple[ComputeBench, Path]:
    from dataclasses import replace

    from fleetctl.bench.compute import HERE, measure_here
    from fleetctl.bench.session import provenance_of
    from fleetctl.cli.bench_options import command_line
    from fleetctl.jobs import runs

    where = provenance_of(app.rack, (), command_line())
    where = replace(where, phones=(HERE,), models={HERE: socket.gethostname()})
    folder = runs.create(app.paths.runs, "bench-compute").path
    try:
        return measure_here(wish, python, where, folder, limit_seconds), folder
    except BaseException:
        folder.rmdir()
        raise
