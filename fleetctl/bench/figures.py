"""The figures of benches. They follow the figures of the paper by what is shown, 2 to 7:

2 goodput by phones at once · 3 compute by model and device · 4 exchange of each model's gradients,
packed and chunk-wise · 5 ring and MPI_Allreduce by phones and size · 6 scaling by model ·
7 temperature and the time of an iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from fleetctl.bench import heat_figure, scaling_figure
from fleetctl.bench.collectives import bound_seconds
from fleetctl.bench.document import (
    Bench,
    CollectivesBench,
    ComputeBench,
    ScalingBench,
    ThermalBench,
)
from fleetctl.bench.links import Spread
from fleetctl.bench.plotting import (
    GREY,
    Line,
    colours_of,
    draw_lines,
    figure,
    name_lines,
    phones_axis,
    styled,
)
from fleetctl.bench.tables import size
from trainer.formats import CollectiveTime

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {
    "ring": "ring (ours)",
    "hierarchical": "hierarchical (ours)",
    "mpi": "MPI_Allreduce, default",
    "mpi-tuned": "MPI_Allreduce, tuned ring",
    "gloo": "gloo",
}

_BOUND = "bound by bandwidth"


@dataclass(frozen=True, slots=True)
class Drawn:
    """`name` is a file's, `says` what the picture shows, for those who do not see it."""

    name: str
    says: str
    figure: Figure


def figures(bench: Bench, others: Sequence[Bench] = ()) -> list[Drawn]:
    """What can be drawn of a bench. Compute benches among `others` stand beside one."""
    match bench:
        case CollectivesBench():
            return [*_collectives(bench)]
        case ComputeBench():
            beside = [each for each in others if isinstance(each, ComputeBench)]
            return [*_compute([bench, *beside])]
        case ScalingBench():
            return [Drawn(*each) for each in scaling_figure.draw(bench)]
        case ThermalBench():
            return [Drawn(*each) for each in heat_figure.draw(bench)]


@styled
def draw_goodput(series: Mapping[str, Sequence[Spread]]) -> Figure:
    """Mean goodput of a flow by the number of phones that send or receive at once; bars are
    standard deviations. Raises ValueError where there is nothing to draw."""
    lines = []
    for name, spreads in series.items():
        points = sorted(spreads, key=lambda point: point.phones)
        lines.append(
            Line(
                name,
                tuple(point.phones for point in points),
                tuple(point.mean_mbits for point in points),
                tuple(point.deviation_mbits for point in points),
            )
        )
    if not any(line.x for line in lines):
        raise ValueError("nothing was measured")
    drawn, (axes,) = figure()
    draw_lines(axes, lines, colours_of(series))
    axes.set_title("Goodput of one flow, mean and standard deviation")
    axes.set_ylabel("Mb/s a flow")
    axes.set_ylim(bottom=0)
    phones_axis(axes, [int(phones) for line in lines for phones in line.x])
    axes.set_xlabel("phones at the same time")
    name_lines(axes, lines, colours_of(series))
    return drawn


def _collectives(bench: CollectivesBench) -> Iterator[Drawn]:
    times = [(len(launch.phones), time) for launch in bench.launches for time in launch.times]
    plain = [(p, t) for p, t in times if t.operation == "all-reduce" and t.model is None]
    if plain:
        yield Drawn(
            "fig5-all-reduce",
            "Seconds of an all-reduce by size of the message, a panel for each number of phones.",
            _by_size(plain, bench.goodput_mbits),
        )
    if {time.method for _, time in plain} >= {"ring", "mpi"}:
        yield Drawn(
            "fig5-ring-gain",
            "How many times faster the ring is than MPI_Allreduce, by phones and size.",
            _gain(plain),
        )
    models = [(p, t) for p, t in times if t.model is not None]
    if models:
        yield Drawn(
            "fig4-packed",
            "Seconds to sum each model's gradients, packed and tensor by tensor.",
            _packed(models),
        )
    patterns = [(p, t) for p, t in times if t.operation != "all-reduce"]
    if patterns:
        yield Drawn(
            "fig2-patterns",
            "One-to-many and many-to-many by number of phones, largest size.",
            _patterns(patterns, bench.goodput_mbits),
        )


type _Times = Sequence[tuple[int, CollectiveTime]]


@styled
def _by_size(times: _Times, goodput_mbits: float | None) -> Figure:
    counts = sorted({phones for phones, _ in times})[-4:]
    methods = [method for method in NAMES if any(t.method == method for _, t in times)]
    colours = colours_of(NAMES[method] for method in methods)
    columns = min(2, len(counts))
    rows = -(-len(counts) // columns)
    drawn, panels = figure(rows, columns, 1.0 + 2.9 * rows, sharey=True)
    for place, axes in enumerate(panels):
        if place >= len(counts):
            axes.set_axis_off()
            continue
        phones = counts[place]
        here = [time for p, time in times if p == phones]
        lines = [_line(NAMES[m], [t for t in here if t.method == m]) for m in methods]
        if goodput_mbits:
            lines.append(_bound_line(here, phones, goodput_mbits))
        draw_lines(axes, lines, colours)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(f"{phones} phones")
        _size_axis(axes, [time.bytes for time in here])
        if place % columns == 0:
            axes.set_ylabel("seconds")
    _legend(drawn, panels[0])
    return drawn


def _legend(drawn: Figure, axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    ordered = sorted(zip(names, handles, strict=True), key=lambda each: each[0] == _BOUND)
    drawn.legend(
        [handle for _, handle in ordered],
        [name for name, _ in ordered],
        loc="outside upper left",
        ncols=3,
        fontsize=9,
    )


def _line(name: str, times: Sequence[CollectiveTime]) -> Line:
    ordered = sorted(times, key=lambda time: time.bytes)
    return Line(
        name,
        tuple(time.bytes for time in ordered),
        tuple(median(time.seconds) for time in ordered),
    )


def _bound_line(times: Sequence[CollectiveTime], phones: int, goodput_mbits: float) -> Line:
    sizes = sorted({time.bytes: time for time in times}.items())
    return Line(
        _BOUND,
        tuple(float(at) for at, _ in sizes),
        tuple(bound_seconds(time, phones, goodput_mbits) for _, time in sizes),
        quiet=True,
    )


def _size_axis(axes: Axes, sizes: Sequence[int]) -> None:
    from matplotlib.ticker import NullLocator

    ticks = sorted(set(sizes))
    axes.set_xticks(ticks, [size(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("bytes that each phone holds")


@styled
def _gain(times: _Times) -> Figure:
    known = {(p, t.bytes, t.method): median(t.seconds) for p, t in times}
    sizes = sorted({t.bytes for _, t in times})
    lines = []
    for at in sizes:
        points = [
            (p, known[p, at, "mpi"] / known[p, at, "ring"])
            for p in sorted({p for p, _ in times})
            if (p, at, "mpi") in known and (p, at, "ring") in known
        ]
        lines.append(Line(size(at), *_columns(points)))
    colours = colours_of(line.name for line in lines)
    drawn, (axes,) = figure()
    axes.axhline(1, color=GREY, linewidth=1)
    draw_lines(axes, lines, colours)
    axes.set_title("The ring against MPI_Allreduce as Open MPI chooses it, by size")
    axes.set_ylabel("times faster (above 1: the ring)")
    phones_axis(axes, [p for p, _ in times])
    axes.set_ylim(bottom=0)
    name_lines(axes, lines, colours)
    return drawn


def _columns(
    points: Sequence[tuple[float, float]],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(x for x, _ in points), tuple(y for _, y in points)


@styled
def _packed(times: _Times) -> Figure:
    """The most phones only, a panel a method."""
    most = max(phones for phones, _ in times)
    here = [time for phones, time in times if phones == most]
    methods = [method for method in NAMES if any(t.method == method for t in here)]
    models = sorted({str(t.model) for t in here}, key=lambda m: _bytes_of(here, m))
    colours = colours_of(("packed", "chunk-wise"))
    height = 1.3 + 0.5 * len(models) * -(-len(methods) // 2)
    columns = min(2, len(methods))
    drawn, panels = figure(-(-len(methods) // columns), columns, height, sharex=True, sharey=True)
    for axes, method in zip(panels, methods, strict=False):
        for place, way in enumerate(colours):
            bars = [
                (row + (0.2 if place else -0.2), median(t.seconds))
                for row, model in enumerate(models)
                for t in here
                if (t.model, t.method, t.way) == (model, method, way)
            ]
            rows, widths = _columns(bars)
            drawn_bars = axes.barh(rows, widths, 0.38, color=colours[way], label=way)
            axes.bar_label(drawn_bars, fmt="%.3g", padding=3, fontsize=8)
        axes.set_title(NAMES[method])
        axes.set_yticks(range(len(models)), [f"{m}\n{size(_bytes_of(here, m))}" for m in models])
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.15)
        axes.set_xlabel(f"seconds on {most} phones")
    for axes in panels[len(methods) :]:
        axes.set_axis_off()
    _legend(drawn, panels[0])
    return drawn


def _bytes_of(times: Sequence[CollectiveTime], model: str) -> int:
    return next(time.bytes for time in times if time.model == model)


@styled
def _patterns(times: _Times, goodput_mbits: float | None) -> Figure:
    """What the busiest link carries, in Mb/s: flat is perfect."""
    most = max(time.bytes for _, time in times)
    colours = colours_of(("plain messages", "MPI"))
    drawn, panels = figure(1, 2, sharey=True)
    shown: list[list[Line]] = []
    for axes, operation in zip(panels, ("one-to-many", "many-to-many"), strict=True):
        lines = []
        for method, name in (("messages", "plain messages"), ("mpi", "MPI")):
            points = [
                # As large as p lets it be: sizes are cut to a multiple of the phones.
                (p, bound_seconds(t, p, 1.0) / median(t.seconds))
                for p, t in sorted(times, key=lambda each: each[0])
                if (t.operation, t.method) == (operation, method) and t.bytes > 0.9 * most
            ]
            lines.append(Line(name, *_columns(points)))
        if goodput_mbits:
            axes.axhline(goodput_mbits, color=GREY, linewidth=1.2, linestyle="--")
            axes.text(
                *(0.01, goodput_mbits, "iperf3, one pair"),
                transform=axes.get_yaxis_transform(),
                va="top",
                fontsize=8,
                color=GREY,
            )
        draw_lines(axes, lines, colours)
        axes.set_title(f"{operation}, {size(most)}")
        phones_axis(axes, [p for p, _ in times])
        axes.set_ylim(bottom=0)
        shown.append(lines)
    panels[0].set_ylabel("Mb/s over the busiest link")
    for axes, lines in zip(panels, shown, strict=True):
        name_lines(axes, lines, colours)
    return drawn


def _compute(benches: Sequence[ComputeBench]) -> Iterator[Drawn]:
    rates: dict[str, dict[str, list[float]]] = {}
    for bench in benches:
        for phone in bench.phones:
            kind = bench.provenance.models.get(phone.phone, phone.phone)
            device = phone.device if phone.device != "cpu" else kind
            for time in phone.times:
                name = f"{time.case.model.name}, batch {time.case.batch}"
                per_device = rates.setdefault(name, {})
                threads = time.case.threads
                label = f"{device}, {threads} {'thread' if threads == 1 else 'threads'}"
                per_device.setdefault(label, []).append(time.images_per_second)
    if rates:
        yield Drawn(
            "fig3-compute",
            "Images a second in training, by model and device; sustained.",
            _rates(rates),
        )


@styled
def _rates(rates: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    devices = colours_of(device for each in rates.values() for device in each)
    drawn, (axes,) = figure(height_inches=1.6 + 0.45 * len(rates))
    order = sorted(rates, key=lambda name: max(fmean(r) for r in rates[name].values()))
    for place, (device, colour) in enumerate(devices.items()):
        marker = "os^DvPX"[place % 7]
        rows = [row for row, name in enumerate(order) if device in rates[name]]
        means = [fmean(rates[order[row]][device]) for row in rows]
        low = [m - min(rates[order[row]][device]) for row, m in zip(rows, means, strict=True)]
        high = [max(rates[order[row]][device]) - m for row, m in zip(rows, means, strict=True)]
        axes.errorbar(
            means,
            rows,
            xerr=(low, high),
            fmt=marker,
            color=colour,
            capsize=3,
            markersize=7,
            label=device,
        )
        for row, mean in zip(rows, means, strict=True):
            axes.annotate(
                f"{mean:.3g}",
                (mean, row),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=colour,
            )
    axes.set_yticks(range(len(order)), order)
    axes.set_ylim(-0.6, len(order) - 0.3)
    axes.set_xscale("log")
    axes.set_xlabel("images a second, sustained (mean and range over phones; logarithmic)")
    _legend(drawn, axes)
    return drawn
