"""`fleetctl bench collectives`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fleetctl.cli.bench_options import Many, Size, known_models, limit_option, on_phones
from fleetctl.cli.common import App, nodes_argument, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.bench.document import CollectivesBench

METHODS = ("ring", "hierarchical", "mpi", "mpi-tuned", "gloo")


@click.command("collectives")
@nodes_argument
@click.option(
    "--counts",
    type=Many(click.INT),
    help="Numbers of phones; else 2, 4, 8, … up to all.",
)
@click.option(
    "--methods",
    type=Many(click.Choice(METHODS)),
    default=None,
    show_default="all; without hierarchical where phones have no switch in the rack file",
    help=f"Ways to all-reduce: {', '.join(METHODS)}. "
    "`mpi` brings one-to-many and many-to-many too.",
)
@click.option("--sizes", type=Many(Size()), default="1k,64k,1M,16M", show_default=True)
@click.option("--models", type=Many(click.STRING), help="Sum these models' gradients, too.")
@click.option("--repeats", type=click.IntRange(1, 1000), default=5, show_default=True)
@limit_option
@output_option
@pass_app
def collectives(
    app: App,
    nodes: tuple[str, ...],
    counts: tuple[int, ...] | None,
    methods: tuple[str, ...] | None,
    sizes: tuple[int, ...],
    models: tuple[str, ...] | None,
    repeats: int,
    limit_seconds: float,
    output: str,
) -> int:
    """Time collectives on NODES, else on all ready phones, by number of phones and size.

    All-reduce by the trainer's exchange, by MPI and by gloo; one-to-many and many-to-many by plain
    messages and by MPI; a model's gradients packed and tensor by tensor. α and B of the rack are
    fitted to the rings and kept in its profile.
    """
    from fleetctl.bench import collectives as bench
    from fleetctl.bench.fit import steps_of_phones
    from fleetctl.cli.bench_output import finish
    from fleetctl.rack import InputError

    specs = known_models(models or ())

    async def work(session: bench.Session) -> CollectivesBench:
        most = len(session.phones)
        if most < 2:
            raise InputError("a collective needs two phones at least")
        if counts and not all(2 <= count <= most for count in counts):
            raise InputError(f"--counts: {most} phones are ready; ask for 2 to {most}")
        numbers = counts or steps_of_phones(most)
        wish = bench.CollectivesWish(
            numbers,
            bench.possible_methods(session, methods, max(numbers)),
            sizes,
            repeats,
            specs,
        )
        return await bench.measure(session, wish)

    found = on_phones(app, nodes, "collectives", work, limit_seconds)
    return ExitCode.INTERRUPTED if found is None else finish(app, *found, output)
