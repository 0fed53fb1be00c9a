"""The figures of a run: learning, throughput, the parts of an iteration, heat, phones, energy.

They stay readable at any length and any number of phones: long series become medians of equal
parts of the time, many phones become median and spread, with the worst few by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import median, quantiles
from typing import TYPE_CHECKING

from fleetctl.bench.figures import Drawn
from fleetctl.bench.plotting import COLOURS, GREY, Line, figure, name_lines, styled
from fleetctl.bench.run import heat_figure, phone_figures
from fleetctl.bench.run.digest import Digest
from fleetctl.bench.run.record import Attempt, RunRecord
from fleetctl.bench.run.scale import Clock, clock

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trainer.formats import IterationEvent

_PARTS = 120
"""Points of a series over time, at most."""
_LEAST = 10
"""Iterations of a point: their median is what is drawn."""
_FAINT = 1200
"""Points of the pale line of single values, at most."""


def figures(record: RunRecord, told: Digest) -> list[Drawn]:
    """Those that there is something to draw of, in the order of the page."""
    found: list[Drawn] = []
    if any(step.loss is not None for step in record.iterations) or _evaluations(record):
        found.append(
            Drawn(
                "learning", "Loss of each iteration, and accuracy on test data.", _learning(record)
            )
        )
    if record.iterations:
        found.append(
            Drawn("throughput", "Images a second of all phones together.", _throughput(record))
        )
        found.append(
            Drawn(
                "iteration",
                "What an iteration of the head phone was made of: compute, and the part of the "
                "exchange that compute did not hide. Dashed: the exchange as a whole.",
                _parts(record),
            )
        )
    found += [Drawn(*each) for each in heat_figure.draw(record, told)]
    found += [Drawn(*each) for each in phone_figures.draw(record)]
    return found


def _evaluations(record: RunRecord) -> list[tuple[int, float]]:
    """Iteration and accuracy, each once: what a later attempt did again counts."""
    found = {
        each.iteration: each.test_accuracy
        for attempt in record.attempts
        for each in attempt.evaluations
        if math.isfinite(each.test_accuracy)
    }
    return sorted(found.items())


@styled
def _learning(record: RunRecord) -> Figure:
    losses = [
        (step.iteration, step.loss)
        for step in record.iterations
        if step.loss is not None and math.isfinite(step.loss)
    ]
    tests = _evaluations(record)
    drawn, panels = figure(2 if losses and tests else 1, 1, 5.4 if losses and tests else 3.4)
    if losses:
        _draw_losses(panels[0], losses)
    last = record.iterations[-1].iteration if record.iterations else tests[-1][0]
    for axes in panels:
        axes.set_xlim(left=0, right=1.04 * last)
    if tests:
        _draw_accuracy(panels[-1], tests)
    _mark_iterations(panels, record.attempts)
    panels[-1].set_xlabel("iteration")
    return drawn


def _draw_accuracy(axes: Axes, tests: Sequence[tuple[int, float]]) -> None:
    at = [iteration for iteration, _ in tests]
    percent = [100 * value for _, value in tests]
    dots = "o" if len(tests) <= _PARTS else None
    axes.plot(at, percent, color=COLOURS[2], linewidth=1.6, marker=dots, markersize=3.5)
    axes.set_title("Accuracy on test data")
    axes.set_ylabel("%")
    last = f"{percent[-1]:.2f} %"
    name_lines(axes, [Line(last, (at[-1],), (percent[-1],))], {last: COLOURS[2]})


def _draw_losses(axes: Axes, losses: Sequence[tuple[int, float]]) -> None:
    thin = losses[:: -(-len(losses) // _FAINT)]
    many = len(losses) > _PARTS
    axes.plot(*zip(*thin, strict=True), color=COLOURS[0], linewidth=0.8, alpha=0.3 if many else 1)
    if many:
        at = _binned(losses, lambda each: float(each[0]))
        axes.plot(
            [median(e[0] for e in part) for part in at],
            [median(e[1] for e in part) for part in at],
            color=COLOURS[0],
            linewidth=1.8,
        )
    axes.set_title("Loss, single iterations and their median" if many else "Loss")
    positive = [value for _, value in losses if value > 0]
    if len(positive) == len(losses) and max(positive) > 50 * min(median(positive), max(positive)):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0.0, *(value for _, value in losses)))


def _binned[T](
    items: Sequence[T], place: Callable[[T], float], most: int = _PARTS
) -> list[list[T]]:
    """Items, in order of their place, in at most `most` equal parts of its range."""
    first, last = place(items[0]), place(items[-1])
    length = max(last - first, 1e-9) / most
    parts: dict[int, list[T]] = {}
    for item in items:
        at = min(most - 1, max(0, int((place(item) - first) / length)))
        parts.setdefault(at, []).append(item)
    return [part for _, part in sorted(parts.items())]


def _mark_iterations(panels: Sequence[Axes], attempts: Sequence[Attempt]) -> None:
    """Where later attempts went on."""
    starts = [attempt.iterations[0].iteration for attempt in attempts[1:] if attempt.iterations]
    for axes in panels:
        _mark(axes, starts, explained=axes is panels[0])


def _mark_times(axes: Axes, record: RunRecord, scale: Clock) -> None:
    _mark(axes, [scale.of(attempt.began) for attempt in record.attempts[1:]])


def _mark(axes: Axes, places: Sequence[float], *, explained: bool = True) -> None:
    for place in places:
        axes.axvline(place, color=GREY, linewidth=1, linestyle=":")
    if places and explained:
        axes.annotate(
            "dotted: a new attempt began",
            (1, 1),
            xytext=(0, 3),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="right",
            fontsize=8,
            color=GREY,
        )


def _series(record: RunRecord) -> Iterator[list[list[IterationEvent]]]:
    """For each attempt its iterations in parts of the time; a line must not cross the gap."""
    total = max(1, sum(len(attempt.iterations) for attempt in record.attempts))
    for attempt in record.attempts:
        if attempt.iterations:
            share = max(2, round(_PARTS * len(attempt.iterations) / total))
            share = min(share, max(2, len(attempt.iterations) // _LEAST))
            ordered = sorted(attempt.iterations, key=lambda step: step.time)
            yield _binned(ordered, lambda step: step.time, share)


@styled
def _throughput(record: RunRecord) -> Figure:
    scale = clock(record)
    drawn, (axes,) = figure(1, 1, 3.0)
    for parts in _series(record):
        at = [scale.of(median(step.time for step in part)) for part in parts]
        axes.plot(
            at,
            [median(step.images_per_second for step in part) for part in parts],
            color=COLOURS[0],
            linewidth=1.8,
            marker="o" if len(at) < 3 else None,
        )
        if all(len(part) > 3 for part in parts):
            spread = [quantiles((s.images_per_second for s in part), n=10) for part in parts]
            low, high = [each[0] for each in spread], [each[-1] for each in spread]
            axes.fill_between(at, low, high, color=COLOURS[0], alpha=0.18, linewidth=0)
    axes.set_title("Throughput: median, and the range of 8 in 10 iterations")
    axes.set_ylabel("images/s")
    axes.set_xlabel(scale.label)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    _mark_times(axes, record, scale)
    return drawn


@styled
def _parts(record: RunRecord) -> Figure:
    scale = clock(record)
    drawn, (axes,) = figure(1, 1, 3.2)
    for place, parts in enumerate(_series(record)):
        at = [scale.of(median(step.time for step in part)) for part in parts]
        compute = [median(step.compute_seconds for step in part) for part in parts]
        wait = [median(step.wait_seconds for step in part) for part in parts]
        whole = [median(step.exchange_seconds for step in part) for part in parts]
        names = ("compute", "exchange, not hidden") if not place else ("", "")
        axes.stackplot(at, compute, wait, colors=COLOURS[:2], alpha=0.75, labels=names)
        label = None if place else "exchange, all of it"
        axes.plot(at, whole, color=COLOURS[6], linestyle="--", linewidth=1.2, label=label)
    axes.set_title("One iteration on the head phone")
    axes.set_ylabel("seconds")
    axes.set_xlabel(scale.label)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    _mark_times(axes, record, scale)
    drawn.legend(loc="outside lower center", ncols=3, fontsize=9)
    return drawn
