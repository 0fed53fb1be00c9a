"""Figure 6: where the time of an iteration goes by number of phones, and what is left of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from fleetctl.bench.document import ScalingBench
from fleetctl.bench.plotting import (
    COLOURS,
    GREY,
    Line,
    colours_of,
    draw_lines,
    figure,
    name_lines,
    phones_axis,
    styled,
)
from fleetctl.bench.scaling import Point, points, relative

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SAYS = {"global": "the same global batch", "phone": "the same batch on each phone"}


def draw(bench: ScalingBench) -> Iterator[tuple[str, str, Figure]]:
    """Name, words and picture: parts of an iteration, and efficiency, for each kind of batch."""
    found = points(bench.launches)
    for mode, words in _SAYS.items():
        here = [point for point in found if point.mode == mode]
        if here:
            yield (
                f"fig6-iteration-{mode}",
                f"Compute and wait in one iteration by number of phones, {words}.",
                _parts(here, words),
            )
            yield (
                f"fig6-efficiency-{mode}",
                f"Speed-up and efficiency by number of phones, {words}.",
                _efficiency(here, words),
            )


@styled
def _parts(found: Sequence[Point], words: str) -> Figure:
    """Bars of compute and wait; a mark shows the exchange, most of which compute may hide."""
    models = list(dict.fromkeys(point.model for point in found))
    columns = min(3, len(models))
    rows = -(-len(models) // columns)
    drawn, panels = figure(rows, columns, 0.9 + 2.8 * rows)
    for axes, model in zip(panels, models, strict=False):
        here = sorted((p for p in found if p.model == model), key=lambda p: p.phones)
        places = range(len(here))
        compute = [p.compute_seconds for p in here]
        axes.bar(places, compute, 0.6, color=COLOURS[0], label="compute (slowest phone)")
        # The iteration is what it is; wait is what compute does not explain.
        wait = [max(0.0, p.iteration_seconds - p.compute_seconds) for p in here]
        axes.bar(places, wait, 0.6, compute, color=COLOURS[5], label="waiting for the exchange")
        exchange = [p.exchange_seconds for p in here]
        axes.scatter(places, exchange, marker="_", s=500, color=COLOURS[6], label="exchange")
        axes.set_xticks(places, [str(p.phones) for p in here])
        axes.set_xlabel("phones")
        axes.set_title(model)
        axes.grid(visible=False, axis="x")
    for axes in panels[len(models) :]:
        axes.set_axis_off()
    panels[0].set_ylabel("seconds an iteration")
    _legend(drawn, panels[0], words)
    return drawn


def _legend(drawn: Figure, axes: Axes, words: str) -> None:
    handles, names = axes.get_legend_handles_labels()
    drawn.legend(
        handles, names, loc="outside upper left", ncols=3, fontsize=9, title=words.capitalize()
    )


@styled
def _efficiency(found: Sequence[Point], words: str) -> Figure:
    drawn, (left, right) = figure(1, 2)
    models = list(dict.fromkeys(point.model for point in found))
    colours = colours_of(models)
    shown: list[list[Line]] = []
    counts = sorted({point.phones for point in found})
    what: tuple[tuple[Axes, Literal["speed_up", "efficiency"]], ...] = (
        (left, "speed_up"),
        (right, "efficiency"),
    )
    for axes, name in what:
        lines = []
        for model in models:
            here = sorted((p for p in found if p.model == model), key=lambda p: p.phones)
            gains = [getattr(relative(point, found), name) for point in here]
            lines.append(Line(model, tuple(p.phones for p in here), tuple(gains)))
        if name == "speed_up":
            perfect = tuple(float(count) for count in counts)
            lines.append(Line("perfect", perfect, perfect, quiet=True))
        phones_axis(axes, counts)
        draw_lines(axes, lines, colours)
        if name == "speed_up":
            # Both logarithmic, so that perfect is a straight line.
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.set_title(f"Speed-up, {words}", fontsize=10)
        else:
            axes.set_ylim(bottom=0)
            axes.axhline(1, color=GREY, linestyle="--", linewidth=1.2)
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
            axes.set_title("Efficiency", fontsize=10)
        shown.append(lines)
    left.set_ylabel("phones' worth of images a second")
    for axes, lines in zip((left, right), shown, strict=True):
        name_lines(axes, lines, colours)
    return drawn
