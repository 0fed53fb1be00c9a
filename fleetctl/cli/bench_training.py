"""`fleetctl bench scaling` and `fleetctl bench thermal`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fleetctl.cli.bench_options import IMAGE, Many, known_models, limit_option, on_phones
from fleetctl.cli.common import App, nodes_argument, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleetctl.bench.document import ScalingBench, ThermalBench
    from fleetctl.bench.session import Session
    from trainer.formats import Exchange


def _training_options[Command: Callable[..., object]](command: Command) -> Command:
    """What both need to make steps."""
    for option in reversed(
        (
            click.option(
                "--image",
                "shape",
                type=IMAGE,
                default="3x32x32",
                show_default=True,
                help="Shape of an image: channels, height, width.",
            ),
            click.option("--classes", type=click.IntRange(2), default=10, show_default=True),
            click.option("--threads", type=click.IntRange(1, 64), default=1, show_default=True),
            click.option(
                "--reduce",
                type=click.Choice(["ring", "hierarchical", "mpi", "gloo"]),
                default="ring",
                show_default=True,
            ),
            click.option(
                "--codec", type=click.Choice(["none", "half"]), default="none", show_default=True
            ),
            click.option(
                "--bucket",
                type=click.Choice(["all", "each"]),
                default="all",
                show_default=True,
                help="All gradients packed, or each tensor by itself.",
            ),
        )
    ):
        command = option(command)
    return command


def _exchange(reduce: str, codec: str, bucket: str) -> Exchange:
    from trainer.formats import Exchange

    return Exchange(reduce=reduce, codec=codec, bucket_bytes=bucket)  # type: ignore[arg-type]


@click.command("scaling")
@nodes_argument
@click.option("--models", type=Many(click.STRING), required=True, help="Models by name.")
@click.option("--counts", type=Many(click.INT), help="Numbers of phones; else 1, 2, 4, … all.")
@click.option(
    "--global-batch",
    type=click.IntRange(0),
    default=32,
    show_default=True,
    help="Images an iteration, the same for all numbers of phones; 0: not measured.",
)
@click.option(
    "--phone-batch",
    type=click.IntRange(0),
    default=8,
    show_default=True,
    help="Images an iteration on each phone; 0: not measured.",
)
@click.option("--iterations", type=click.IntRange(1), default=20, show_default=True)
@_training_options
@limit_option
@output_option
@pass_app
def scaling(
    app: App,
    nodes: tuple[str, ...],
    models: tuple[str, ...],
    counts: tuple[int, ...] | None,
    global_batch: int,
    phone_batch: int,
    iterations: int,
    shape: tuple[int, ...],
    classes: int,
    threads: int,
    reduce: str,
    codec: str,
    bucket: str,
    limit_seconds: float,
    output: str,
) -> int:
    """Train on more and more of NODES, else of all ready phones: compute, exchange, wait.

    Once with the same global batch, once with the same batch on each phone; images are synthetic.
    Speed-up and efficiency are against the fewest phones.
    """
    from fleetctl.bench import training
    from fleetctl.bench.fit import steps_of_phones
    from fleetctl.cli.bench_output import finish
    from fleetctl.rack import InputError
    from trainer.formats import Input

    specs = known_models(models, Input(shape, classes))
    if not global_batch and not phone_batch:
        raise click.UsageError("--global-batch 0 and --phone-batch 0 leave nothing to measure.")

    async def work(session: Session) -> ScalingBench:
        most = len(session.phones)
        if counts and not all(1 <= count <= most for count in counts):
            raise InputError(f"--counts: {most} phones are ready; ask for 1 to {most}")
        wish = training.ScalingWish(
            specs,
            Input(shape, classes),
            counts or steps_of_phones(most, 1),
            global_batch,
            phone_batch,
            iterations,
            threads,
            _exchange(reduce, codec, bucket),
        )
        return await training.scaling(session, wish)

    found = on_phones(app, nodes, "scaling", work, limit_seconds)
    return ExitCode.INTERRUPTED if found is None else finish(app, *found, output)


@click.command("thermal")
@nodes_argument
@click.option("--model", default="digits-cnn", show_default=True)
@click.option("--phone-batch", type=click.IntRange(1), default=64, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(5),
    default=1800.0,
    show_default=True,
    help="Phones take about half an hour to get as hot as they will.",
)
@_training_options
@output_option
@pass_app
def thermal(
    app: App,
    nodes: tuple[str, ...],
    model: str,
    phone_batch: int,
    seconds: float,
    shape: tuple[int, ...],
    classes: int,
    threads: int,
    reduce: str,
    codec: str,
    bucket: str,
    output: str,
) -> int:
    """Train for a long time on NODES, else on all ready phones: temperature and iteration time.

    Both by the phone's own clock, the temperature as its exporter reads it. Run it once with the
    fan and once without, and `fleetctl bench report` both.
    """
    from fleetctl.bench import training
    from fleetctl.cli.bench_output import finish
    from trainer.formats import Input

    (spec,) = known_models((model,), Input(shape, classes))

    async def work(session: Session) -> ThermalBench:
        wish = training.ThermalWish(
            spec,
            Input(shape, classes),
            phone_batch,
            seconds,
            threads,
            _exchange(reduce, codec, bucket),
        )
        return await training.thermal(session, wish)

    found = on_phones(app, nodes, "thermal", work, 2 * seconds + 900)
    return ExitCode.INTERRUPTED if found is None else finish(app, *found, output)
