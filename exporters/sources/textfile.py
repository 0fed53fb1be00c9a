"""The operator's own metrics: files NAME.prom in $HOME/phonerack/textfile, in Prometheus' text
format.

Write such a file under another name and rename it, so that no half of it is ever read. One that is
damaged is refused as a whole, with the reason as a metric; the others are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from exporters.metrics import TEXTFILE_MODIFIED, TEXTFILE_REFUSED, Metric, Sample
from exporters.sources import Layout, Source

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

MOST_FILES = 4
MOST_VALUES = 16
"""Of all files together: a phone has less than 150 series, whatever else it tells."""
LARGEST_BYTES = 64_000
KINDS = ("counter", "gauge", "unknown")
OURS = ("phonerack_", "process_", "up")


class Refused(Exception):
    """Why a file is not shown, in a few words: it becomes a label."""


def source(layout: Layout) -> Source:
    return Source("textfile", lambda: list(textfiles(layout)), every_seconds=15.0)


def textfiles(layout: Layout) -> Iterator[Sample]:
    """Nothing where the folder is empty or not there."""
    folder = layout.folder / "textfile"
    if not folder.is_dir():
        return
    shown: dict[str, Metric] = {}
    values = 0
    for place, path in enumerate(sorted(folder.glob("*.prom"))):
        if not path.is_file():  # a pipe would keep us waiting
            continue
        try:
            if place >= MOST_FILES:
                raise Refused(f"more than {MOST_FILES} files")
            samples = parse(path)
            if values + len(samples) > MOST_VALUES:
                raise Refused(f"more than {MOST_VALUES} values in all files")
            if {sample.metric.name for sample in samples} & shown.keys():
                raise Refused("a metric of it is in another file, too")
        except Refused as refusal:
            yield TEXTFILE_REFUSED.sample(1, path.name, str(refusal))
            if place >= MOST_FILES:
                return
            continue
        values += len(samples)
        shown |= {sample.metric.name: sample.metric for sample in samples}
        yield from samples
        yield TEXTFILE_MODIFIED.sample(path.stat().st_mtime, path.name)


def parse(path: Path) -> list[Sample]:
    """Raises Refused."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise Refused(f"more than {LARGEST_BYTES} bytes")
        text = content.decode()
    except (OSError, UnicodeDecodeError):
        raise Refused("it cannot be read as text") from None
    if not text.endswith("\n"):
        raise Refused("no newline at its end: cut off")
    # Here and not above: a phone without such files need not have it in memory.
    from prometheus_client.parser import text_string_to_metric_families

    families: dict[str, Family] = {}
    try:
        for family in text_string_to_metric_families(text):
            first = families.setdefault(family.name, family)
            if first is family:
                continue
            if family.type != "unknown" or family.documentation:
                raise Refused("a metric of it is described twice")
            first.samples += family.samples  # without a description each value comes alone
        return [sample for family in families.values() for sample in _checked(family)]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise Refused("it is not in Prometheus' text format") from None


def _checked(family: Family) -> list[Sample]:
    """What a family holds, if the page can hold it as well. Raises Refused."""
    kind: Literal["counter", "gauge"] = "counter" if family.type == "counter" else "gauge"
    name = family.name + ("_total" if kind == "counter" else "")
    if family.type not in KINDS or any(each.name != name for each in family.samples):
        raise Refused("it holds more than gauges and counters")
    if name.startswith(OURS):
        raise Refused("a metric of it bears a name of ours")
    if any(each.timestamp is not None for each in family.samples):
        raise Refused("it holds a timestamp")
    rows = {tuple(sorted(each.labels.items())): each.value for each in family.samples}
    if len(rows) < len(family.samples):
        raise Refused("a value of it is there twice")
    names = {tuple(label for label, _ in row) for row in rows}
    if len(names) > 1:
        raise Refused("a metric of it has different labels")
    metric = Metric(name, family.documentation, names.pop() if names else (), kind)
    return [metric.sample(value, *(v for _, v in row)) for row, value in rows.items()]
