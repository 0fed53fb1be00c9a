"""Temperature against the time of an iteration, phone by phone or as median and spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from fleetctl.bench.plotting import COLOURS, GREY, Line, colours_of, figure, name_lines, styled
from fleetctl.bench.run.digest import Digest, Step, heat_of, steps_of
from fleetctl.bench.run.record import RunRecord
from fleetctl.bench.run.scale import Clock, clock

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 7
"""More lines cannot be told apart."""
WORST = 3
_PARTS = 60
_MOST_DOTS = 3000

type Points = Mapping[str, Sequence[tuple[float, float]]]


def draw(record: RunRecord, told: Digest) -> Iterator[tuple[str, str, Figure]]:
    heat, steps = heat_of(record), steps_of(record)
    if not heat and not steps:
        return
    work = {p: [(s.time, s.compute_seconds) for s in known] for p, known in steps.items()}
    panels = [(told.sensor, "°C", heat, False)] if heat else []
    if work:
        panels.append(("Compute of one iteration", "seconds", work, True))
    says = "Temperature and compute time of the phones over time"
    if len(heat.keys() | work.keys()) > MOST_LINES:
        says += f": median, the range of 8 in 10 phones, and the {WORST} slowest by name"
    yield "heat-over-time", f"{says}.", _over_time(panels, clock(record))
    if any(step.celsius is not None for known in steps.values() for step in known):
        yield (
            "heat-against-time",
            "Each dot is one look at a phone: how warm it was, and how long it computed for a "
            "sample, compared with its own best. A rise to the right is heat that costs time.",
            _against(steps, told),
        )


@styled
def _over_time(panels: Sequence[tuple[str, str, Points, bool]], scale: Clock) -> Figure:
    drawn, axes = figure(len(panels), 1, 1.2 + 2.3 * len(panels), sharex=True)
    everybody = list(dict.fromkeys(phone for _, _, points, _ in panels for phone in points))
    worst = worst_of(panels[-1][2] if panels[-1][3] else panels[0][2])
    shown = everybody if len(everybody) <= MOST_LINES else worst
    colours = colours_of(shown)
    named = []
    for panel, (title, unit, points, from_zero) in zip(axes, panels, strict=True):
        lines = [_line(phone, points[phone], scale) for phone in shown if phone in points]
        if len(everybody) > MOST_LINES:
            _draw_spread(panel, points, scale)
        for line in lines:
            dots = "o" if len(line.x) < 3 else None
            panel.plot(line.x, line.y, color=colours[line.name], linewidth=1.5, marker=dots)
        panel.set_title(f"Temperature, {title}" if unit == "°C" else title)
        panel.set_ylabel(unit)
        if from_zero:
            panel.set_ylim(0, 1.12 * panel.get_ylim()[1])
        named.append((panel, lines))
    axes[-1].set_xlabel(scale.label)
    axes[-1].set_xlim(left=0)
    for panel, lines in named:
        name_lines(panel, lines, colours)
    return drawn


def worst_of(points: Points) -> list[str]:
    """The phones with the highest medians, the worst first."""
    ranked = sorted(
        (phone for phone in points if points[phone]),
        key=lambda phone: median(value for _, value in points[phone]),
        reverse=True,
    )
    return ranked[:WORST]


def _line(phone: str, points: Sequence[tuple[float, float]], scale: Clock) -> Line:
    parts = binned(points, _PARTS)
    return Line(
        phone,
        tuple(scale.of(median(t for t, _ in part)) for part in parts),
        tuple(median(value for _, value in part) for part in parts),
    )


def binned(points: Sequence[tuple[float, float]], most: int) -> list[list[tuple[float, float]]]:
    """Points, in order of time, in at most `most` equal parts of it."""
    if not points:
        return []
    first, last = points[0][0], points[-1][0]
    length = max(last - first, 1e-9) / most
    parts: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        parts.setdefault(min(most - 1, max(0, int((point[0] - first) / length))), []).append(point)
    return [part for _, part in sorted(parts.items())]


def _draw_spread(axes: Axes, points: Points, scale: Clock) -> None:
    """Median of the phones over time, and the band that 8 in 10 of them keep within."""
    every = sorted(point for known in points.values() for point in known)
    parts = binned(every, _PARTS)
    at = [scale.of(median(t for t, _ in part)) for part in parts]
    ordered = [sorted(value for _, value in part) for part in parts]
    low = [part[len(part) // 10] for part in ordered]
    high = [part[-1 - len(part) // 10] for part in ordered]
    axes.fill_between(at, low, high, color=GREY, alpha=0.25, linewidth=0)
    axes.plot(at, [median(part) for part in ordered], color="#333333", linewidth=1.8)


@styled
def _against(steps: Mapping[str, Sequence[Step]], told: Digest) -> Figure:
    best = {phone: min(s.seconds_per_sample for s in known) for phone, known in steps.items()}
    dots = {
        phone: [
            (step.celsius, step.seconds_per_sample / best[phone])
            for step in known
            if step.celsius is not None and best[phone] > 0
        ]
        for phone, known in steps.items()
    }
    shown = list(dots) if len(dots) <= MOST_LINES else worst_of(dots)
    colours = colours_of(shown)
    stride = max(1, sum(map(len, dots.values())) // _MOST_DOTS)
    drawn, (axes,) = figure(1, 1, 3.6)
    others = [dot for phone, known in dots.items() if phone not in shown for dot in known]
    if others:
        warm, slow = zip(*others[::stride], strict=True)
        axes.scatter(warm, slow, s=7, color=GREY, alpha=0.35, linewidths=0)
    for phone in shown:
        if dots[phone]:
            warm, slow = zip(*dots[phone][::stride], strict=True)
            axes.scatter(warm, slow, s=14, color=colours[phone], label=phone, linewidths=0)
    if others:
        axes.scatter([], [], s=14, color=GREY, label="the others")
    axes.axhline(1, color=COLOURS[6], linewidth=0.8)
    axes.set_xlabel(f"°C, {told.sensor}")
    axes.set_ylabel("times its own best")
    axes.set_title("Compute of a sample by temperature")
    drawn.legend(loc="outside right center", fontsize=9)
    return drawn
