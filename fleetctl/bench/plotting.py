"""How figures look: matplotlib without pyplot, colour-blind-safe, names beside their lines."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, 2008: told apart by all common kinds of colour vision. Yellow is too pale here.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#333333")
GREY = "#767676"
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_WIDTH_INCHES = 7.2
_GAP_POINTS = 7
"""Between a line's last point and its name."""
_TRIES = 4
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "phonerack",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One series. `spread` is half the height of the bar at each point; `quiet` lines are drawn
    thin and grey: a bound, an ideal."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    spread: tuple[float, ...] | None = None
    quiet: bool = False


def styled[**Arguments, Drawn](draw: Callable[Arguments, Drawn]) -> Callable[Arguments, Drawn]:
    """Draw in the project's style; imports matplotlib when first called."""

    @functools.wraps(draw)
    def inside(*arguments: Arguments.args, **options: Arguments.kwargs) -> Drawn:
        from matplotlib import rc_context

        with rc_context(_STYLE):
            return draw(*arguments, **options)

    return inside


def figure(
    rows: int = 1, columns: int = 1, height_inches: float = 3.8, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, row by row; for functions that are `styled`."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(_WIDTH_INCHES, height_inches), layout="constrained")
    return drawn, list(drawn.subplots(rows, columns, squeeze=False, **options).flat)


def draw_lines(axes: Axes, lines: Sequence[Line], colours: Mapping[str, str]) -> None:
    """Lines with markers; quiet ones dashed."""
    for line in lines:
        place = list(colours).index(line.name) if line.name in colours else 0
        colour = GREY if line.quiet else colours[line.name]
        style: dict[str, Any] = {"color": colour, "label": line.name}
        if line.quiet:
            axes.plot(line.x, line.y, linestyle="--", linewidth=1.2, **style)
        else:
            marker = _MARKERS[place % len(_MARKERS)]
            style |= {"marker": marker, "markersize": 5, "capsize": 2, "linewidth": 1.8}
            axes.errorbar(line.x, line.y, line.spread, **style)


def name_lines(axes: Axes, lines: Sequence[Line], colours: Mapping[str, str]) -> None:
    """The name of each line beside its last point, moved apart where names would overlap; the
    horizontal axis is widened so that they stay inside. The last thing done to a panel."""
    ends = [line for line in lines if line.x]
    if not ends:
        return
    drawn = axes.get_figure(root=True)
    assert drawn is not None  # noqa: S101
    names = [
        axes.annotate(
            line.name,
            (line.x[-1], line.y[-1]),
            xytext=(_GAP_POINTS, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=GREY if line.quiet else colours[line.name],
            annotation_clip=False,
            in_layout=False,
        )
        for line in ends
    ]
    gap = _GAP_POINTS * drawn.dpi / 72
    for _ in range(_TRIES):
        drawn.draw_without_rendering()  # so that sizes and scale are known
        boxes = [name.get_window_extent() for name in names]
        over = max(box.x1 for box in boxes) + gap - axes.bbox.x1
        if over <= 0:
            break
        _widen(axes, over / axes.bbox.width)
    wanted = [float(axes.transData.transform((line.x[-1], line.y[-1]))[1]) for line in ends]
    places = apart(wanted, max(box.height for box in boxes))
    for name, at, place in zip(names, wanted, places, strict=True):
        name.set_position((_GAP_POINTS, (place - at) * 72 / drawn.dpi))


def _widen(axes: Axes, share: float) -> None:
    """Leave so much of the width free at the right."""
    low, high = axes.get_xlim()
    more = 1 / (1 - min(share, 0.5))
    if axes.get_xscale() == "log":
        axes.set_xlim(low, low * (high / low) ** more)
    else:
        axes.set_xlim(low, low + (high - low) * more)


def apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Places as near to `wanted` (least squares) as they can be while no two are closer than `gap`
    and their order stays. Pure: isotonic regression by pooling neighbours that collide."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    pools: list[list[float]] = []
    for rank, index in enumerate(order):
        pools.append([wanted[index] - gap * rank])
        while len(pools) > 1 and fmean(pools[-2]) > fmean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    levels = [fmean(pool) for pool in pools for _ in pool]
    found = [0.0] * len(wanted)
    for rank, (index, level) in enumerate(zip(order, levels, strict=True)):
        found[index] = level + gap * rank
    return found


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """One colour for each name, the same wherever the order is."""
    return {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(dict.fromkeys(names))}


def phones_axis(axes: Axes, counts: Iterable[int]) -> None:
    """Numbers of phones by powers of two, with those that were measured as ticks."""
    from matplotlib.ticker import NullLocator

    ticks = sorted(set(counts))
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("phones")


@styled
def render(drawn: Figure, kind: Literal["svg", "png"]) -> bytes:
    """The figure as a file; the same figure gives the same bytes."""
    out = io.BytesIO()
    drawn.savefig(out, format=kind, dpi=144, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()
