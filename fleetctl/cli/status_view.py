"""How `status` shows phones: rows from rack, state and vitals, then a table that fits. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fleetctl.checks.vitals import Vitals
from fleetctl.cli.phone_view import facts_json, history_json
from fleetctl.state.facts import PhoneFacts, PhoneState, derive
from fleetctl.state.history import moment_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fleetctl.rack import Phone, Rack
    from fleetctl.state import Event

type Shown = PhoneState | Literal["throttled", "empty"]
"""A place of the rack file without a phone has no state; of one whose sshd lets us wait, nobody can
tell more."""

WIDE_COLUMNS = 110
"""Terminals narrower than this do without model and address."""

_STYLES: dict[Shown, str] = {
    "ready": "green",
    "busy": "cyan",
    "draining": "yellow",
    "drained": "yellow",
    "suspect": "magenta",
    "throttled": "magenta",
    "lost": "red",
    "needs-hands": "bold red",
    "empty": "dim",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One phone as `status` shows it. `seen_seconds` is the age of its last contact."""

    phone: Phone
    state: Shown
    facts: PhoneFacts
    vitals: Vitals
    seen_seconds: float | None
    heated: tuple[int, int] | None = None
    """How many samples of how many it has, where heat has made its share less."""

    @property
    def run(self) -> str | None:
        return self.facts.run or self.vitals.run

    @property
    def place(self) -> str | None:
        return f"{self.phone.switch}:{self.phone.port}" if self.phone.switch else None


def make_rows(
    rack: Rack,
    names: Sequence[str],
    facts: Mapping[str, PhoneFacts],
    vitals: Mapping[str, Vitals],
    now: float,
    heated: Mapping[str, tuple[int, int]] | None = None,
) -> list[Row]:
    """One row a phone, in the order of `names`. `now` in seconds since the epoch. `heated`: phones
    whose share of a run is less for their heat."""
    rows = []
    for name in names:
        fact = facts.get(name, PhoneFacts())
        seen = fact.contact.seen
        age_seconds = None if seen is None else max(0.0, now - seen)
        look = vitals.get(name, Vitals())
        state = _shown(rack.phones[name], derive(fact, now), look)
        less = (heated or {}).get(name)
        rows.append(Row(rack.phones[name], state, fact, look, age_seconds, less))
    return rows


def _shown(phone: Phone, state: PhoneState, look: Vitals) -> Shown:
    if not phone.enrolled:
        return "empty"
    return "throttled" if look.throttled and state in ("ready", "suspect") else state


def as_json(
    rack: Rack, rows: Sequence[Row], histories: Mapping[str, Sequence[Event]] | None = None
) -> dict[str, Any]:
    """The document of `status -o json`; `histories` of those phones that are shown with theirs."""
    known = histories or {}
    return {
        "rack": rack.name,
        "phones": [_phone_json(row, known.get(row.phone.name)) for row in rows],
    }


def _phone_json(row: Row, history: Sequence[Event] | None) -> dict[str, Any]:
    phone, vitals = row.phone, row.vitals
    return {
        "name": phone.name,
        "state": row.state,
        "switch": phone.switch,
        "port": phone.port,
        "group": phone.group,
        "model": phone.model,
        "address": phone.address,
        "last_contact": row.facts.contact.seen,
        "temperature_celsius": vitals.temperature_celsius,
        "battery_ratio": vitals.battery_ratio,
        "run": row.run,
        "heated": row.heated,
        "iteration": vitals.iteration,
        "iterations": vitals.iterations,
        "loss": vitals.loss,
        "test_accuracy": vitals.test_accuracy,
        **facts_json(row.facts),
        "problem": vitals.problem,
        "history": None if history is None else history_json(history),
    }


def render(rack: Rack, rows: Sequence[Row], width: int) -> RenderableType:
    """A headline, the table and remarks, in `width` columns."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [
        Text(_headline(rack, rows), style="bold"),
        phone_table(rack, rows, width),
    ]
    return Group(*parts, *(Text(remark) for remark in remarks(rows)))


def phone_table(rack: Rack, rows: Sequence[Row], width: int) -> RenderableType:
    """A line a phone, with the columns that are worth their room."""
    from rich.table import Table

    columns = _columns(rows, width, rack.thresholds.max_temperature_celsius)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, numeric, _ in columns:
        table.add_column(title, no_wrap=True, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(cell(row) or "-" for _, _, cell in columns))
    return table


type _Column = tuple[str, bool, Callable[[Row], str | None]]


def _columns(rows: Sequence[Row], width: int, hot_celsius: float) -> list[_Column]:
    """Title, whether it holds numbers, and cell text of every column that is worth its room."""

    def state(row: Row) -> str:
        return f"[{_STYLES[row.state]}]{row.state}[/]"

    def celsius(row: Row) -> str | None:
        value = row.vitals.temperature_celsius
        if value is None:
            return None
        return f"[red]{value:.0f}[/]" if value >= hot_celsius else f"{value:.0f}"

    def iteration(row: Row) -> str | None:
        done, of = row.vitals.iteration, row.vitals.iterations
        return None if done is None else f"{done}/{of}" if of else str(done)

    columns: list[_Column] = [("phone", False, lambda row: row.phone.name), ("state", False, state)]
    if any(row.place for row in rows):
        columns.append(("port", False, lambda row: row.place))
    if width >= WIDE_COLUMNS:
        columns += [
            ("model", False, lambda row: row.phone.model),
            ("address", False, lambda row: row.phone.address),
        ]
    columns += [
        ("°C", True, celsius),
        ("battery", True, lambda row: _format(row.vitals.battery_ratio, "{:.0%}")),
    ]
    if any(row.run for row in rows):
        columns += [
            ("job", False, lambda row: row.run),
            ("iteration", True, iteration),
            ("loss", True, lambda row: _format(row.vitals.loss, "{:.4f}")),
            ("accuracy", True, lambda row: _format(row.vitals.test_accuracy, "{:.2%}")),
        ]
    columns.append(("seen", True, lambda row: age_text(row.seen_seconds)))
    return columns


def _headline(rack: Rack, rows: Sequence[Row]) -> str:
    counts = Counter(row.state for row in rows)
    states = ", ".join(f"{counts[state]} {state}" for state in _STYLES if counts[state])
    return f"rack {rack.name}: {len(rows)} phones, {states}"


def remarks(rows: Sequence[Row]) -> list[str]:
    """Problems, drains and suspicions; equal ones of several phones are one line for all."""
    from fleetctl.rack.nodesets import fold_sentences

    kinds = (_empty, _problem, _other_door, _drains, _suspicions, _cpuset, _heat)
    return fold_sentences(
        (row.phone.name, text) for kind in kinds for row in rows for text in kind(row)
    )


def _empty(row: Row) -> list[str]:
    if row.state != "empty":
        return []
    name = row.phone.name
    return [
        f"{name} empty: enrol a phone there (`fleetctl enroll`), or take it out of the rack file"
    ]


def _problem(row: Row) -> list[str]:
    return [row.vitals.problem] if row.vitals.problem else []


def _drains(row: Row) -> list[str]:
    return [
        f"{row.phone.name} drained by {drain.by}"
        + (f" until {moment_text(drain.until)}" if drain.until is not None else "")
        + f": {drain.why}"
        for drain in row.facts.drains
    ]


def _other_door(row: Row) -> list[str]:
    contact, adb = row.facts.contact, row.facts.adb
    if contact.missed_since is None or adb is None or adb.time < contact.missed_since:
        return []
    if adb.answered:
        return [
            f"{row.phone.name} answers over adb: `fleetctl enroll --serial {row.phone.serial}` "
            "starts its sshd, without a walk"
        ]
    return [f"{row.phone.name} is silent over adb too: go there"]


def _suspicions(row: Row) -> list[str]:
    if row.state != "suspect" or row.vitals.problem:
        return []
    return [f"{row.phone.name} suspect: {_suspicion(row.facts)}"]


def _cpuset(row: Row) -> list[str]:
    """Android keeps an app in the background off the fast cores."""
    allowed, cpus = row.vitals.cpus_allowed, row.vitals.cpus
    if allowed is None or cpus is None or allowed >= cpus:
        return []
    return [f"{row.phone.name} has a restricted cpuset: {allowed} of {cpus} cores"]


def _heat(row: Row) -> list[str]:
    if row.heated is None:
        return []
    now, of = row.heated
    if not now:
        return [f"{row.phone.name} paused for heat in {row.run}"]
    return [f"{row.phone.name} slowed for heat in {row.run}: {now} of {of} samples"]


def _suspicion(facts: PhoneFacts) -> str:
    if facts.revocations is not None and facts.revocations.outdated:
        return (
            f"it accepts keys that were revoked (its list is version {facts.revocations.seen}, "
            f"the rack's {facts.revocations.wanted}): run site.yml -t ssh"
        )
    if facts.health is not None and facts.health.status == "CRITICAL":
        return facts.health.message
    if facts.contact.seen is None:
        return "not seen yet"
    return "it was away; the preflight of the next launch decides"


def _format(value: float | None, pattern: str) -> str | None:
    return None if value is None else pattern.format(value)


def age_text(seconds: float | None) -> str | None:
    """An age in its largest unit: 5s, 12m, 3h, 9d."""
    if seconds is None:
        return None
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
