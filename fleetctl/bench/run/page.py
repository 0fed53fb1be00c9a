"""The report of a run: one page, out of its folder alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fleetctl.bench.figures import Drawn
from fleetctl.bench.page import Section, picture, write_figure, write_page
from fleetctl.bench.run.digest import Digest, PhoneStory
from fleetctl.bench.run.happenings import happenings, rows
from fleetctl.bench.run.record import RunRecord
from fleetctl.bench.tables import Cell, Table, seconds
from fleetctl.jobs.jobfile import duration_words
from fleetctl.rack.nodesets import fold

MOST_PHONES = 24
"""Rows of the table of phones; of more, the worst."""

PLACES = {
    "Training": ("learning", "throughput", "iteration"),
    "Heat": ("heat-over-time", "heat-against-time"),
    "Phones": ("stragglers",),
    "Energy": ("energy",),
}
"""Part of the page -> its figures."""


def write_report(record: RunRecord, told: Digest, drawn: Sequence[Drawn], target: Path) -> Path:
    """Write the page of a run with its figures. Raises OSError."""
    return write_page(f"Run {record.name}", sections(record, told, drawn), target)


def write_figures(drawn: Sequence[Drawn], folder: Path) -> None:
    """Every figure as SVG and as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in drawn:
        write_figure(each, folder)


def sections(record: RunRecord, told: Digest, drawn: Sequence[Drawn]) -> list[Section]:
    """The page's parts; one without anything to show is left out."""
    named = {each.name: each for each in drawn}
    found = [Section("In short", facts=_summary(record, told), problems=_problems(record, told))]
    for name, wanted in PLACES.items():
        tables = [_phones(told)] if name == "Phones" and told.phones else []
        shown = [named[each] for each in wanted if each in named]
        if shown or tables:
            found.append(Section(name, [picture(each) for each in shown], tables))
    found.append(Section("Events", tables=[_events(record)]))
    found.append(Section("Again", facts=_again(record)))
    return found


def _problems(record: RunRecord, told: Digest) -> list[str]:
    diverged = told.diverged_at
    lost = [f"The loss was no number from iteration {diverged} on."] if diverged else []
    return [*lost, *record.missing]


def _summary(record: RunRecord, told: Digest) -> list[tuple[str, str]]:
    summary = record.summary
    state: str = summary.state
    if summary.reason:
        state += f": {summary.reason.splitlines()[0]}"
    took = (summary.ended or record.read_at) - record.began
    found = [("state", state)]
    found += [(name, record.facts[name]) for name in ("trains", "command") if name in record.facts]
    found.append(("began", f"{_moment(record.began)}, took {duration_words(max(took, 0))}"))
    if summary.phones:
        found.append(("phones", f"{len(summary.phones)}: {fold(summary.phones)}"))
    if len(record.attempts) > 1:
        found.append(("attempts", str(len(record.attempts))))
    found += _learned(told)
    found.append(("cost", record.cost.words()))
    if told.joules_per_image is not None:
        found.append(("energy of an image", f"{told.joules_per_image:.3g} J"))
    return found


def _learned(told: Digest) -> Iterator[tuple[str, str]]:
    if told.iterations:
        yield "did", f"{told.iterations} iterations, {told.images} images"
    if told.test_accuracy is not None:
        best = told.best_test_accuracy
        better = f", at its best {best:.2%}" if best and best > told.test_accuracy else ""
        yield "test accuracy", f"{told.test_accuracy:.2%}{better}"
    if told.loss is not None:
        yield "last loss", f"{told.loss:.4g}"
    if told.images_per_second is not None:
        yield "throughput", f"{told.images_per_second:.0f} images/s, the median"
    if told.compute_seconds is not None:
        yield (
            "an iteration",
            f"{seconds(told.compute_seconds)} of compute, the exchange took "
            f"{seconds(told.exchange_seconds or 0.0)} and was waited for for "
            f"{seconds(told.wait_seconds or 0.0)} (medians on the head phone)",
        )


def _phones(told: Digest) -> Table:
    ordered = sorted(told.phones, key=_badness, reverse=True)
    shown = ordered[:MOST_PHONES] if len(ordered) > MOST_PHONES else told.phones
    title = "" if len(shown) == len(ordered) else f"The worst {MOST_PHONES} of {len(ordered)}"
    columns = (
        *("phone", "looks", "compute", "times the fastest", f"°C, {told.sensor}"),
        *("throttled", "Wh", "remarks"),
    )
    return Table(title, columns, tuple(_row(story) for story in shown))


def _badness(story: PhoneStory) -> tuple[bool, float, float]:
    return story.lost is not None, story.of_fastest or 0.0, story.hottest_celsius or 0.0


def _row(story: PhoneStory) -> tuple[Cell, ...]:
    heat, throttled = None, None
    if story.coolest_celsius is not None and story.hottest_celsius is not None:
        heat = f"{story.coolest_celsius:.0f} to {story.hottest_celsius:.0f}"
    if story.throttled_seconds is not None:
        throttled = duration_words(story.throttled_seconds)
    straggler = ["straggler"] if story.named_straggler else []
    lost = [f"lost: {story.lost.splitlines()[0]}"] if story.lost else []
    return (
        story.phone,
        story.iterations,
        None if story.compute_seconds is None else seconds(story.compute_seconds),
        None if story.of_fastest is None else f"{story.of_fastest:.2f}",
        heat,
        throttled,
        None if story.watt_hours is None else f"{story.watt_hours:.2f}",
        "; ".join([*straggler, *lost]),
    )


def _events(record: RunRecord) -> Table:
    told: Sequence[tuple[Cell, ...]] = rows(happenings(record.events), record.began)
    return Table("", ("after", "kind", "phones", "what"), tuple(told))


def _again(record: RunRecord) -> list[tuple[str, str]]:
    names = {"again": "run it again", "go on": "go on with it"}
    found = [(names[key], command) for key, command in record.commands.items()]
    found += [(n, t) for n, t in record.facts.items() if n not in ("trains", "command")]
    found.append(("folder", str(record.folder)))
    found.append(("page made", _moment(record.read_at)))
    return found


def _moment(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%d %H:%M UTC")


def document(record: RunRecord, told: Digest) -> dict[str, Any]:
    """The report's numbers, for programs."""
    return {
        "run": record.summary.as_json(),
        "cost": record.cost.as_json(),
        "digest": told.as_json(),
        "events": [
            {"time": each.time, "kind": each.kind, "phones": each.phones, "what": each.text}
            for each in happenings(record.events)
        ],
        "missing": _problems(record, told),
        "commands": record.commands,
        "folder": str(record.folder),
    }
