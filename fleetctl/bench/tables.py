"""What a bench found, as tables for a terminal and for the report. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleetctl.bench.collectives import bound_seconds
from fleetctl.bench.document import Bench, CollectivesBench, ComputeBench, ScalingBench
from fleetctl.bench.scaling import points, relative
from fleetctl.bench.thermal import slowdowns
from trainer.formats import CollectiveTime, ComputeTime, LargestBatch

type Cell = str | int | None


@dataclass(frozen=True, slots=True)
class Table:
    """`rows` are as wide as `columns`; None is unknown or does not apply."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def tables(bench: Bench) -> list[Table]:
    """Those that have a row."""
    match bench:
        case CollectivesBench():
            found = [_collectives(bench), _models(bench), _fits(bench)]
        case ComputeBench():
            found = [_compute(bench), _parts(bench), _largest(bench)]
        case ScalingBench():
            found = [_scaling(bench)]
        case _:
            found = [
                Table(
                    "Heat",
                    *(
                        ("phone", "iterations", "coolest °C", "s", "hottest °C", "s", "slower by"),
                        tuple(
                            (
                                each.phone,
                                each.iterations,
                                _degrees(each.cool_celsius),
                                seconds(each.cool_seconds),
                                _degrees(each.hot_celsius),
                                seconds(each.hot_seconds),
                                f"{each.slower_by:+.1%}",
                            )
                            for each in slowdowns(bench.ranks)
                        ),
                    ),
                )
            ]
    return [table for table in found if table.rows]


def _collectives(bench: CollectivesBench) -> Table:
    def rows() -> Iterator[tuple[Cell, ...]]:
        for phones, time in sorted(_times(bench), key=_order):
            if time.model is not None:
                continue
            median = statistics.median(time.seconds)
            bound = "-"
            if bench.goodput_mbits:
                bound = f"{median / bound_seconds(time, phones, bench.goodput_mbits):.2f}"
            yield (
                time.operation,
                phones,
                size(time.bytes),
                time.method,
                seconds(median),
                seconds(min(time.seconds)),
                bound,
                seconds(time.cpu_seconds),
            )

    columns = ("collective", "phones", "size", "by", "median", "least", "x bound", "CPU")
    return Table("Collectives", columns, tuple(rows()))


def _models(bench: CollectivesBench) -> Table:
    found: dict[tuple[str, int, str], dict[str, CollectiveTime]] = {}
    for phones, time in _times(bench):
        if time.model is not None and time.way is not None:
            found.setdefault((time.model, phones, time.method), {})[time.way] = time
    rows = []
    for (model, phones, method), ways in sorted(found.items()):
        packed, chunks = (statistics.median(ways[way].seconds) for way in ("packed", "chunk-wise"))
        time = ways["packed"]
        rows.append(
            (
                *(model, time.tensors, size(time.bytes), phones, method),
                *(seconds(packed), seconds(chunks), f"{chunks / packed:.2f}"),
            )
        )
    columns = ("model", "tensors", "size", "phones", "by", "packed", "chunk-wise", "ratio")
    return Table("Gradients of models", columns, tuple(rows))


def _fits(bench: CollectivesBench) -> Table:
    rows = tuple(
        (
            each.method,
            f"{each.fit.alpha_seconds * 1000:.3f} ms",
            f"{each.fit.bytes_per_second * 8e-6:.1f} Mb/s",
            f"{each.fit.error:.1%}",
            each.fit.samples,
        )
        for each in bench.fits
    )
    return Table("Fitted to rings", ("by", "α a step", "B a port", "error", "sizes"), rows)


def _times(bench: CollectivesBench) -> Iterator[tuple[int, CollectiveTime]]:
    for launch in bench.launches:
        for time in launch.times:
            yield len(launch.phones), time


def _order(found: tuple[int, CollectiveTime]) -> tuple[str, int, int, str]:
    phones, time = found
    return time.operation, phones, time.bytes, time.method


def _compute(bench: ComputeBench) -> Table:
    def row(phone: str, time: ComputeTime) -> tuple[Cell, ...]:
        case = time.case
        before, after = _degrees(time.celsius_before), _degrees(time.celsius_after)
        return (
            *(phone, case.model.name, case.batch, case.threads, seconds(time.step_seconds)),
            f"{time.images_per_second:.1f}",
            f"{case.batch / time.burst_step_seconds:.1f}",
            f"{before or '?'} to {after or '?'}",
        )

    rows = tuple(row(each.phone, time) for each in bench.phones for time in each.times)
    columns = ("phone", "model", "batch", "threads", "step", "images/s", "burst", "°C")
    return Table("Compute, sustained", columns, rows)


def _parts(bench: ComputeBench) -> Table:
    rows = tuple(
        (
            *(each.phone, time.case.model.name, time.case.batch, time.case.threads),
            *(seconds(time.forward_seconds), seconds(time.backward_seconds)),
            seconds(time.optimizer_seconds),
        )
        for each in bench.phones
        for time in each.times
    )
    columns = ("phone", "model", "batch", "threads", "forward", "backward", "optimiser")
    return Table("Parts of a step", columns, rows)


def _largest(bench: ComputeBench) -> Table:
    def row(phone: str, found: LargestBatch) -> tuple[Cell, ...]:
        shape = "x".join(str(side) for side in found.input.shape)
        more = "yes" if found.bounded else "no"
        return (
            *(phone, found.model.name, shape, found.batch, size(found.peak_bytes)),
            *(size(found.limit_bytes), found.trials, more),
        )

    rows = tuple(row(each.phone, found) for each in bench.phones for found in each.largest)
    columns = ("phone", "model", "image", "largest batch", "peak", "limit", "trials", "more fits")
    return Table("Largest batch that fits", columns, rows)


def _scaling(bench: ScalingBench) -> Table:
    rows = []
    for point in points(bench.launches):
        gain = relative(point, points(bench.launches))
        rows.append(
            (
                *(point.model, f"fixed {point.mode}", point.phones, point.global_batch),
                *(seconds(point.compute_seconds), seconds(point.exchange_seconds)),
                *(seconds(point.wait_seconds), seconds(point.iteration_seconds)),
                f"{point.images_per_second:.1f}",
                f"{gain.speed_up:.2f}",
                f"{gain.efficiency:.1%}",
            )
        )
    columns = (
        *("model", "batch", "phones", "global batch", "compute", "exchange", "wait", "iteration"),
        *("images/s", "speed-up", "efficiency"),
    )
    return Table("Scaling", columns, tuple(rows))


def seconds(value: float) -> str:
    """Three figures, in the unit that fits."""
    if value >= 100:
        return f"{value:.0f} s"
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def size(value: float) -> str:
    """Bytes in decimal units."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.0f} B"


def _degrees(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f}"


def columns_of(table: Table) -> Sequence[str]:
    """In capitals, but for what is no letter of the alphabet: α is no A."""
    return tuple("".join(c.upper() if c.isascii() else c for c in name) for name in table.columns)
