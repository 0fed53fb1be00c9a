"""`fleetctl bench net`"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetctl.cli.bench_collectives import collectives
from fleetctl.cli.bench_compute import compute
from fleetctl.cli.bench_output import report
from fleetctl.cli.bench_training import scaling, thermal
from fleetctl.cli.common import App, nodes_argument, output_option, pass_app
from fleetctl.cli.switch_options import SwitchOptions, switch_options
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fleetctl.bench.links import Spread
    from fleetctl.bench.report import NetReport
    from fleetctl.checks.links import Asked


@click.group()
def command() -> None:
    """Measure the rack: results are folders in runs/, with a page to read."""


command.add_command(collectives)
command.add_command(compute)
command.add_command(scaling)
command.add_command(thermal)
command.add_command(report)


@command.command("net")
@nodes_argument
@click.option("--seconds", type=click.FloatRange(0.5, 600), default=3.0, show_default=True)
@click.option(
    "--nominal",
    "nominal_mbits",
    type=click.FloatRange(1),
    show_default="1000; on a stand-in rack what its links are shaped to",
    help="Mb/s that a good link has; classes are relative to it.",
)
@click.option("--figure", type=click.Path(dir_okay=False, path_type=Path), help="An SVG.")
@click.option(
    "--against",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="REPORT",
    help="Draw these earlier reports (-o json) too, such as one over Wi-Fi.",
)
@click.option("--switches/--no-switches", default=True, help="Ask switches for links, too.")
@switch_options()
@output_option
@pass_app
def net(
    app: App,
    nodes: tuple[str, ...],
    seconds: float,
    nominal_mbits: float | None,
    figure: Path | None,
    against: tuple[Path, ...],
    switches: bool,
    login: SwitchOptions,
    output: str,
) -> int:
    """Measure the network between NODES, else all phones that no job has.

    Every phone sends to the next in the ring by itself, a slow one to a fast one too; then more and
    more pairs at the same time.
    Links below full speed are named with their class, with what the switches say of them: speed,
    duplex, errors and flaps of the last hour; and pairs between which packets of the rack's MTU
    are lost. The phones are held meanwhile. Ends with 3 when something is not right.
    """
    from fleetctl.bench.nominal import nominal_mbits as usual_mbits
    from fleetctl.bench.report import read_spreads
    from fleetctl.cli.output import print_json, progress
    from fleetctl.jobs.holding import held

    earlier = [read_spreads(path) for path in against]
    console = progress()

    def say(text: str) -> None:
        console.print(text, markup=False)

    names = _idle(app, nodes)
    run = f"bench-net-{os.getpid()}"
    with held(app.state, app.paths.runs, run, names, "fleetctl bench net"):
        asked = _asked(app, names, login, say) if switches else {}
        nominal = nominal_mbits or usual_mbits(app.paths)
        report = asyncio.run(_measure(app, names, seconds, nominal, asked, say))
    if figure:
        _draw(report, earlier, figure)
    if output == "json":
        print_json(report.document())
    else:
        _print(report)
    return ExitCode.DONE if report.fine else ExitCode.SOME_PHONES_FAILED


def _idle(app: App, nodes: tuple[str, ...]) -> list[str]:
    """The phones named, or all that are enrolled and neither drained nor held."""
    facts = app.state.phones()
    if nodes:
        names = app.select_named(nodes)
    else:
        taken = {name for name, fact in facts.items() if fact.run or fact.drains}
        names = [name for name in app.rack.enrolled if name not in taken]
    if len(names) < 2:
        raise click.UsageError("A network needs two phones at least; name some that no job has.")
    return names


def _asked(
    app: App, names: Sequence[str], login: SwitchOptions, say: Callable[[str], None]
) -> dict[str, Asked]:
    """What the managed switches say of the links of `names`, as far as they tell."""
    from fleetctl.checks.links import Asked
    from fleetctl.switches.ports import PortControl

    found, problems = PortControl(login.switches(app)).links(names)
    for problem in problems.values():
        say(f"{problem}; the links of its phones are not known")
    return {name: Asked(state.speed_mbits, state.full_duplex) for name, state in found.items()}


async def _measure(
    app: App,
    names: Sequence[str],
    seconds: float,
    nominal_mbits: float,
    asked: dict[str, Asked],
    say: Callable[[str], None],
) -> NetReport:
    from fleetctl.bench.links import (
        disjoint_pairs,
        ring_pairs,
        second_looks,
        slow_phones,
        spread,
        steps,
    )
    from fleetctl.bench.net import Network
    from fleetctl.bench.report import NetReport
    from fleetctl.checks.links import recent, with_asked
    from fleetctl.remote import Fleet

    ring, apart = ring_pairs(app.rack, names), disjoint_pairs(app.rack, names)
    counted = recent(app.rack)
    async with Fleet(app.rack, app.paths) as fleet:
        network = Network(app.rack, fleet, say)
        mtu = await network.mtu(ring)
        alone = await network.alone(ring, seconds)
        alone += await network.alone(second_looks(alone, nominal_mbits), seconds)
        rounds = [await network.together(apart[:count], seconds) for count in steps(len(apart))]
    told = with_asked(counted, asked)
    links = {name: link.speed_mbits for name, link in asked.items()}
    flows = [*alone, *(flow for flows in rounds for flow in flows)]
    return NetReport(
        rack=app.rack.name,
        medium=app.rack.network.medium,
        nominal_mbits=nominal_mbits,
        alone=alone,
        spreads=[found for flows in rounds if (found := spread(flows))],
        mtu={str(pair): problem for pair, problem in mtu.items()},
        slow=slow_phones(alone, nominal_mbits, links),
        trouble={name: told[name].trouble for name in names if name in told and told[name].trouble},
        counters=counted is not None,
        links=links,
        failed=[flow.problem for flow in flows if flow.problem],
    )


def _draw(report: NetReport, earlier: Sequence[tuple[str, list[Spread]]], figure: Path) -> None:
    from fleetctl.bench.figures import draw_goodput
    from fleetctl.bench.plotting import render
    from fleetctl.rack import InputError
    from fleetctl.rack.files import write_atomic

    series = {f"{report.rack}, {report.medium}": report.spreads}
    for place, (name, spreads) in enumerate(earlier):
        series[name if name not in series else f"{name} ({place + 2})"] = spreads
    try:
        write_atomic(figure, render(draw_goodput(series), "svg"))
    except ValueError as problem:
        raise InputError(f"no figure: {problem}") from None


def _print(report: NetReport) -> None:
    from fleetctl.cli.output import print_table

    print_table(
        ("FLOW", "Mb/s", "RETRANSMITS", "PROBLEM"),
        (
            (
                flow.pair,
                None if flow.goodput_mbits is None else f"{flow.goodput_mbits:.0f}",
                flow.retransmits,
                flow.problem or "",
            )
            for flow in report.alone
        ),
    )
    print_table(
        ("PHONES AT ONCE", "Mb/s A FLOW", "DEVIATION"),
        (
            (spread.phones, f"{spread.mean_mbits:.0f}", f"{spread.deviation_mbits:.0f}")
            for spread in report.spreads
        ),
    )
    _print_trouble("slow", report.slow)
    _print_trouble("link", report.trouble)
    _print_trouble("MTU", report.mtu)
    if not report.counters:
        click.echo("errors and flaps: not known, no switch is watched (docs/switches.md)")


def _print_trouble(kind: str, trouble: Mapping[str, str]) -> None:
    for name, what in trouble.items():
        click.echo(f"{kind}: {name}: {what}")
