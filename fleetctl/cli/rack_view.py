"""The rack at a glance, for `status --watch`: a cell a phone, then jobs, drains, alerts. Pure.

A cell is the phone's temperature in whole degrees and a mark for its state. The colour repeats
what the two say: nothing is told by colour alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from fleetctl.rack.nodesets import fold

if TYPE_CHECKING:
    from fleetctl.checks.alerts import Alert
    from fleetctl.cli.status_view import Row, Shown
    from fleetctl.rack import Rack

MARKS: dict[Shown, str] = {
    "ready": " ",
    "busy": "*",
    "draining": "d",
    "drained": "d",
    "suspect": "?",
    "throttled": "t",
    "lost": "x",
    "needs-hands": "!",
    "empty": ".",
}
_NAMES = {
    "*": "busy",
    "d": "drained",
    "?": "suspect",
    "t": "throttled",
    "x": "lost",
    "!": "needs hands",
    ".": "empty",
}
CELL_COLUMNS = 3
_LABEL_COLUMNS = 8
_NEAR_CELSIUS = 5.0
"""So far below the rack's limit a phone counts as warm."""

_COOL, _WARM, _HOT, _UNKNOWN = "green", "yellow", "bold white on red", "dim"
_SEVERITIES = {"critical": "bold red", "error": "bold red", "warning": "yellow"}
_ROOM_OF_JOBS, _ROOM_OF_ALERTS = 4, 4


@dataclass(frozen=True, slots=True)
class Shelf:
    """One line of cells: the switch and its first port, or the first phone; None is an empty
    port."""

    label: str
    cells: tuple[Row | None, ...]


def render(
    rack: Rack,
    rows: Sequence[Row],
    remarks: Sequence[str],
    alerts: Sequence[Alert] | None,
    width: int,
    height: int,
    now: float,
) -> Text:
    """At most `height` - 1 lines of at most `width` columns. `now` in seconds since the epoch.

    `alerts` is None where nobody tells them. What there is no room for is counted. The cells come
    first, then alerts, jobs and remarks share what is left.
    """
    limit = rack.thresholds.max_temperature_celsius
    most = max(6, height - 1)
    head = [_headline(rack, rows, now), _heat(rows, limit)]
    cells = [shelf_line(shelf, limit) for shelf in shelves(rack, rows, width)]
    cells = _fitting(cells, most - len(head) - 1, "lines of phones")
    used = len(head) + 1 + len(cells)
    alarm = _fitting(_alert_lines(rack, alerts), min(_ROOM_OF_ALERTS, most - used), "alerts")
    used += len(alarm)
    jobs = _fitting(_job_lines(rows), min(_ROOM_OF_JOBS, most - used), "jobs")
    used += len(jobs)
    said = _fitting([Text(remark) for remark in remarks], most - used, "remarks")
    lines = [*head, *cells, _legend(rows, limit), *alarm, *jobs, *said]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines[:most])


def shelves(rack: Rack, rows: Sequence[Row], width: int) -> list[Shelf]:
    """Lines of cells: of each switch its ports in order, then phones without a switch."""
    room = max(1, (width - _LABEL_COLUMNS) // CELL_COLUMNS)
    columns = next((wish for wish in (48, 24, 12) if wish <= room), room)
    found: list[Shelf] = []
    for name in rack.switches:
        ports = {row.phone.port: row for row in rows if row.phone.switch == name}
        if not ports:
            continue
        last = max(port or 0 for port in ports)
        for first in range(1, last + 1, columns):
            part = tuple(ports.get(port) for port in range(first, min(first + columns, last + 1)))
            if any(part):
                found.append(Shelf(f"{name}:{first}", part))
    loose = [row for row in rows if row.phone.switch not in rack.switches]
    for place in range(0, len(loose), columns):
        some = loose[place : place + columns]
        found.append(Shelf(some[0].phone.name, tuple(some)))
    return found


def shelf_line(shelf: Shelf, limit_celsius: float) -> Text:
    label = shelf.label if len(shelf.label) < _LABEL_COLUMNS else "…" + shelf.label[-6:]
    line = Text(f"{label:<{_LABEL_COLUMNS}}", style="bold")
    for row in shelf.cells:
        line.append_text(cell(row, limit_celsius))
    return line


def cell(row: Row | None, limit_celsius: float) -> Text:
    """Two digits of temperature and the mark; `--` is unknown, `··` a port without a phone."""
    if row is None:
        return Text("·· ", style="dim not bold")
    celsius = row.vitals.temperature_celsius
    away = row.state in ("lost", "needs-hands")
    number = "--" if celsius is None or away else f"{min(99, max(0, round(celsius))):2}"
    style = _UNKNOWN if number == "--" else _heat_style(celsius or 0.0, limit_celsius)
    text = Text(number, style=f"not bold {style}" if style != _HOT else style)
    text.append(MARKS[row.state], style="bold red" if away else "bold cyan")
    return text


def _heat_style(celsius: float, limit_celsius: float) -> str:
    if celsius >= limit_celsius:
        return _HOT
    return _WARM if celsius >= limit_celsius - _NEAR_CELSIUS else _COOL


def _headline(rack: Rack, rows: Sequence[Row], now: float) -> Text:
    counts = Counter(row.state for row in rows)
    states = ", ".join(f"{counts[state]} {state}" for state in MARKS if counts[state])
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    return Text(f"rack {rack.name}: {len(rows)} phones, {states} · {clock}", style="bold")


def _heat(rows: Sequence[Row], limit_celsius: float) -> Text:
    """The mean and the hottest phones, which names those beyond the limit."""
    known = {
        row.phone.name: row.vitals.temperature_celsius
        for row in rows
        if row.vitals.temperature_celsius is not None
    }
    if not known:
        return Text("no phone has told its temperature yet")
    mean = sum(known.values()) / len(known)
    hot = [name for name, celsius in known.items() if celsius >= limit_celsius]
    top = max(known, key=known.__getitem__)
    text = Text(f"mean {mean:.0f} °C, hottest {top} with {known[top]:.0f} °C")
    if hot:
        text.append(f", {len(hot)} over {limit_celsius:g} °C: {fold(hot)}", style="bold red")
    return text


def _legend(rows: Sequence[Row], limit_celsius: float) -> Text:
    """The marks that are there now, and what the numbers are."""
    there = dict.fromkeys(MARKS[row.state] for row in rows)
    marks = "  ".join(f"{mark} {name}" for mark, name in _NAMES.items() if mark in there)
    return Text(f"°C, limit {limit_celsius:g}  -- unknown  {marks}".rstrip(), style="dim")


def _job_lines(rows: Sequence[Row]) -> list[Text]:
    """A line a run: how far it is, and on which phones."""
    members: dict[str, list[Row]] = {}
    for row in rows:
        if row.facts.run or row.vitals.run:
            members.setdefault(str(row.facts.run or row.vitals.run), []).append(row)
    lines = []
    for run, held in members.items():
        furthest = max(held, key=lambda row: row.vitals.iteration or -1).vitals
        said = f"job {run}"
        if furthest.iteration is not None:
            of = f" of {furthest.iterations}" if furthest.iterations else ""
            said += f" at iteration {furthest.iteration}{of}"
        if furthest.loss is not None:
            said += f", loss {furthest.loss:.4f}"
        phones = fold(row.phone.name for row in held)
        lines.append(Text(f"{said}, on {len(held)}: {phones}", style="cyan"))
    return lines


def _alert_lines(rack: Rack, alerts: Sequence[Alert] | None) -> list[Text]:
    """Alerts of one name are one line, with the phones that they are about."""
    if alerts is None:
        return [Text(f"alerts unknown: {_no_monitoring(rack)}", style="yellow")]
    groups: dict[tuple[str, str], list[Alert]] = {}
    for alert in alerts:
        groups.setdefault((alert.severity, alert.name), []).append(alert)
    lines = []
    for (severity, name), same in groups.items():
        phones = list(dict.fromkeys(alert.phone for alert in same if alert.phone))
        who = f" {fold(phones)}" if phones else ""
        what = f": {same[0].summary}" if same[0].summary and len(same) == 1 else ""
        text = f"alert {name} ({severity or 'no severity'}){who}{what}"
        lines.append(Text(text, style=_SEVERITIES.get(severity, "")))
    return lines


def _no_monitoring(rack: Rack) -> str:
    address = rack.network.services or rack.network.controller
    if address is None:
        return "the rack file names no machine that watches"
    return f"no answer from {address}; `fleetctl check controller`"


def _fitting(lines: Iterable[Text], room: int, what: str) -> list[Text]:
    """As many as there is room for; the last line then counts the others."""
    kept = list(lines)
    if len(kept) <= room:
        return kept
    if room < 1:
        return []
    return [*kept[: room - 1], Text(f"… and {len(kept) - room + 1} more {what}", style="dim")]
