"""The report of benches: one HTML file with everything in it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fleetctl.bench.document import Bench
from fleetctl.bench.figures import figures
from fleetctl.bench.plotting import render
from fleetctl.bench.tables import Table, tables
from fleetctl.rack.files import write_atomic
from fleetctl.rack.nodesets import fold

REPORT_FILE = "report.html"
_TEMPLATE = Path(__file__).with_name("page.html.j2")


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    says: str
    source: str
    """A data URL."""


@dataclass(frozen=True, slots=True)
class Section:
    """One bench on the page."""

    name: str
    kind: str
    pictures: Sequence[Picture]
    tables: Sequence[Table]
    problems: Sequence[str]
    facts: Sequence[tuple[str, str]]


def write(benches: Sequence[Bench], names: Sequence[str], target: Path) -> Path:
    """Write the page of `benches`, whose folders bear `names`, to `target`."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    sections = [
        _section(bench, name, [other for other in benches if other is not bench])
        for bench, name in zip(benches, names, strict=True)
    ]
    template = environment.from_string(_TEMPLATE.read_text())
    write_atomic(target, template.render(sections=sections, title=" · ".join(names)))
    return target


def write_figures(benches: Sequence[Bench], names: Sequence[str], folder: Path) -> None:
    """Every figure as SVG and as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    for bench, name in zip(benches, names, strict=True):
        others = [other for other in benches if other is not bench]
        for drawn in figures(bench, others):
            stem = drawn.name if len(benches) == 1 else f"{name}-{drawn.name}"
            write_atomic(folder / f"{stem}.svg", render(drawn.figure, "svg"))
            write_atomic(folder / f"{stem}.png", render(drawn.figure, "png"))


def _section(bench: Bench, name: str, others: Sequence[Bench]) -> Section:
    pictures = []
    for drawn in figures(bench, others):
        encoded = base64.b64encode(render(drawn.figure, "svg")).decode()
        pictures.append(Picture(drawn.name, drawn.says, f"data:image/svg+xml;base64,{encoded}"))
    return Section(name, bench.kind, pictures, tables(bench), bench.problems, facts(bench))


def facts(bench: Bench) -> list[tuple[str, str]]:
    """Where the numbers come from, in words."""
    where = bench.provenance
    by_model: dict[str, list[str]] = {}
    for phone, model in where.models.items():
        by_model.setdefault(model, []).append(phone)
    found = [
        ("measured", datetime.fromtimestamp(where.time, UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("command", where.command),
        ("rack", f"{where.rack}, {where.medium}"),
        ("phones", "; ".join(f"{fold(names)}: {model}" for model, names in by_model.items())),
        ("fleetctl", where.fleetctl + (f", commit {where.commit}" if where.commit else "")),
    ]
    for what, versions in where.versions.items():
        told = "; ".join(f"{version} on {names}" for version, names in versions.items())
        found.append((what, told))
    if where.runs:
        found.append(("runs", ", ".join(where.runs)))
    if where.note:
        found.append(("note", where.note))
    return found
