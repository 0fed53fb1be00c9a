"""Figure 7: temperature and the time of an iteration over a long run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from fleetctl.bench.document import ThermalBench
from fleetctl.bench.plotting import (
    Line,
    colours_of,
    figure,
    name_lines,
    styled,
)
from trainer.formats import StepTime, Trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS = 60
"""A long run has thousands of iterations; each point is the median of its part of the time."""


def draw(bench: ThermalBench) -> Iterator[tuple[str, str, Figure]]:
    if any(rank.steps for rank in bench.ranks):
        yield (
            "fig7-heat",
            "Temperature and compute time of an iteration over time, a line for each phone.",
            _over_time(bench.ranks),
        )


@styled
def _over_time(ranks: Sequence[Trained]) -> Figure:
    """The phones that differ most, if there are many: lines that cannot be told apart tell
    nothing."""
    began = min(rank.steps[0].time for rank in ranks if rank.steps)
    shown = _most_telling(ranks)
    colours = colours_of(rank.phone for rank in shown)
    drawn, (above, below) = figure(2, 1, 5.4, sharex=True)
    heat, work = [], []
    for rank in shown:
        parts = binned(rank.steps, began, _POINTS)
        warm = [(t, [s.celsius for s in each if s.celsius is not None]) for t, each in parts]
        warm = [(t, values) for t, values in warm if values]
        heat.append(
            Line(
                rank.phone,
                tuple(t / 60 for t, _ in warm),
                tuple(median(values) for _, values in warm),
            )
        )
        work.append(
            Line(
                rank.phone,
                tuple(t / 60 for t, _ in parts),
                tuple(median(s.compute_seconds for s in each) for _, each in parts),
            )
        )
    for axes, lines in ((above, heat), (below, work)):
        for line in lines:
            axes.plot(line.x, line.y, color=colours[line.name], linewidth=1.6)
    above.set_ylabel("°C, hottest sensor")
    above.set_title("Temperature")
    below.set_ylabel("seconds")
    below.set_title("Compute of one iteration")
    below.set_xlabel("minutes")
    below.set_ylim(bottom=0)
    for axes, lines in ((above, heat), (below, work)):
        name_lines(axes, lines, colours)
    return drawn


def binned(
    steps: Sequence[StepTime], began: float, most: int
) -> list[tuple[float, list[StepTime]]]:
    """Steps in at most `most` equal parts of the time since `began`, with each part's middle; parts
    without a step are left out."""
    if not steps:
        return []
    length = max(steps[-1].time - began, 1e-9) / most
    parts: dict[int, list[StepTime]] = {}
    for step in steps:
        parts.setdefault(min(most - 1, max(0, int((step.time - began) / length))), []).append(step)
    return [((part + 0.5) * length, each) for part, each in sorted(parts.items())]


_MOST_LINES = 7


def _most_telling(ranks: Sequence[Trained]) -> list[Trained]:
    """At most seven ranks, from the slowest to the fastest in even steps, in rank order."""
    alive = [rank for rank in ranks if rank.steps]
    if len(alive) <= _MOST_LINES:
        return alive
    ordered = sorted(alive, key=lambda rank: median(s.compute_seconds for s in rank.steps))
    step = (len(ordered) - 1) / (_MOST_LINES - 1)
    chosen = {ordered[round(step * i)].phone for i in range(_MOST_LINES)}
    return [rank for rank in alive if rank.phone in chosen]
