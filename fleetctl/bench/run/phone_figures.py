"""The phones of a run beside each other: who is slow, who takes how much energy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from fleetctl.bench.plotting import COLOURS, GREY, figure, styled
from fleetctl.bench.run.digest import Step, steps_of
from fleetctl.bench.run.record import RunRecord
from fleetctl.jobs.stragglers import SLOWER_THAN_FASTEST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 24
NAMED = 5
"""Of more phones than have bars of their own, those at the bad end."""


def draw(record: RunRecord) -> Iterator[tuple[str, str, Figure]]:
    steps = steps_of(record)
    if steps:
        yield (
            "stragglers",
            "Compute time for a sample by phone, 1 is the fastest phone: the median, and the range "
            f"of 8 in 10 iterations. Who is beyond the line at {SLOWER_THAN_FASTEST:g} is a "
            "straggler, for whom the others wait.",
            _stragglers(steps),
        )
    hours = record.watt_hours
    if hours:
        yield "energy", "Energy that each measured phone took.", _energy(hours)


@styled
def _stragglers(steps: Mapping[str, Sequence[Step]]) -> Figure:
    each = {p: sorted(s.seconds_per_sample for s in known) for p, known in steps.items()}
    fastest = max(min(median(values) for values in each.values()), 1e-12)
    rows = {
        phone: (
            median(values) / fastest,
            values[len(values) // 10] / fastest,
            values[-1 - len(values) // 10] / fastest,
        )
        for phone, values in each.items()
    }
    slow = [phone for phone, (middle, _, _) in rows.items() if middle >= SLOWER_THAN_FASTEST]
    drawn, axes = _by_phone(rows, "times as long for a sample as the fastest phone", slow)
    axes.axvline(SLOWER_THAN_FASTEST, color=COLOURS[1], linewidth=1, linestyle="--")
    axes.set_title("Compute of a sample, phone by phone")
    return drawn


@styled
def _energy(hours: Mapping[str, float]) -> Figure:
    total = sum(hours.values())
    rows = {phone: (value, value, value) for phone, value in hours.items()}
    drawn, axes = _by_phone(rows, "Wh", [])
    axes.set_title(f"Energy, {total:.3g} Wh of {len(hours)} phones")
    return drawn


def _by_phone(
    rows: Mapping[str, tuple[float, float, float]], unit: str, marked: Sequence[str]
) -> tuple[Figure, Axes]:
    """Middle, low and high of each phone, the worst above. Few phones have a line each; of many,
    only the worst bear their names."""
    ordered = sorted(rows, key=lambda phone: rows[phone][0])
    few = len(ordered) <= MOST_BARS
    drawn, (axes,) = figure(1, 1, 1.3 + 0.24 * len(ordered) if few else 4.6)
    places = list(range(len(ordered)))
    middle = [rows[phone][0] for phone in ordered]
    low = [rows[phone][1] for phone in ordered]
    high = [rows[phone][2] for phone in ordered]
    colours = [COLOURS[1] if phone in marked else COLOURS[0] for phone in ordered]
    axes.hlines(places, low, high, colors=colours, alpha=0.45, linewidth=5 if few else 2)
    axes.scatter(middle, places, color=colours, s=26 if few else 9, zorder=3)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(unit)
    axes.set_xlim(left=0, right=1.08 * max(high) or 1)
    if few:
        axes.set_yticks(places, ordered)
        axes.margins(y=0.5 / max(1, len(ordered)))
        return drawn, axes
    axes.set_yticks([])
    axes.set_ylabel(f"{len(ordered)} phones, from the least to the most")
    axes.axvline(median(middle), color=GREY, linewidth=1)
    axes.annotate(
        f" median {median(middle):.3g}",
        (median(middle), 0),
        fontsize=9,
        color=GREY,
        va="bottom",
    )
    left = 0.62 * min(1.0, middle[-NAMED] / axes.get_xlim()[1])
    for rank, phone in enumerate(reversed(ordered[-NAMED:])):
        place = len(ordered) - 1 - rank
        axes.annotate(
            phone,
            (middle[place], place),
            xytext=(left, 0.97 - 0.055 * rank),
            textcoords="axes fraction",
            va="center",
            ha="right",
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.6},
        )
    return drawn, axes
