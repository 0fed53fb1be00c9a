"""Reports: one HTML file with everything in it. Here: the page, and that of benches."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fleetctl.bench.document import Bench
from fleetctl.bench.figures import Drawn, figures
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
    """One part of a page, such as a bench: what is wrong with it, pictures, tables, facts."""

    name: str
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    problems: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    facts_title: str = ""


def write(benches: Sequence[Bench], names: Sequence[str], target: Path) -> Path:
    """Write the page of `benches`, whose folders bear `names`, to `target`."""
    sections = [
        _section(bench, name, [other for other in benches if other is not bench])
        for bench, name in zip(benches, names, strict=True)
    ]
    return write_page(" · ".join(names), sections, target)


def write_page(title: str, sections: Sequence[Section], target: Path) -> Path:
    """Write a page that needs no other file and no network. Raises OSError."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_TEMPLATE.read_text())
    write_atomic(target, template.render(sections=sections, title=title))
    return target


def picture(drawn: Drawn) -> Picture:
    encoded = base64.b64encode(render(drawn.figure, "svg")).decode()
    return Picture(drawn.name, drawn.says, f"data:image/svg+xml;base64,{encoded}")


def write_figures(benches: Sequence[Bench], names: Sequence[str], folder: Path) -> None:
    """Every figure as SVG and as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    for bench, name in zip(benches, names, strict=True):
        others = [other for other in benches if other is not bench]
        for drawn in figures(bench, others):
            write_figure(drawn, folder, "" if len(benches) == 1 else f"{name}-")


def write_figure(drawn: Drawn, folder: Path, before: str = "") -> None:
    """One figure as SVG and as PNG; `before` begins their names."""
    write_atomic(folder / f"{before}{drawn.name}.svg", render(drawn.figure, "svg"))
    write_atomic(folder / f"{before}{drawn.name}.png", render(drawn.figure, "png"))


def _section(bench: Bench, name: str, others: Sequence[Bench]) -> Section:
    return Section(
        name,
        [picture(drawn) for drawn in figures(bench, others)],
        tables(bench),
        bench.problems,
        facts(bench),
        "Where this comes from",
    )


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
