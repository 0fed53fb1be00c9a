"""What a decision is made of: queue, runs that hold phones, the state of each phone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleetctl.rack import Rack
from fleetctl.rack.placement import Floor
from fleetctl.serve.decide import Running
from fleetctl.serve.queue import LATE_SECONDS, Entry
from fleetctl.state import PhoneFacts, derive
from fleetctl.state.facts import PhoneState

SERVE: frozenset[PhoneState] = frozenset({"ready", "busy"})
"""States in which a phone takes jobs, now or when its run is over."""

CURABLE: frozenset[PhoneState] = frozenset({"suspect", "lost", "needs-hands"})
"""States that a good preflight ends."""


@dataclass(frozen=True, slots=True)
class Board:
    """What there is to decide on."""

    floor: Floor
    states: Mapping[str, PhoneState]
    running: tuple[Running, ...]

    @property
    def unusable(self) -> dict[str, str]:
        return {name: state for name, state in self.states.items() if state not in SERVE}

    @property
    def curable(self) -> list[str]:
        """Phones without a job that a preflight may make ready again."""
        held = {phone for run in self.running for phone in run.phones}
        return [n for n, state in self.states.items() if state in CURABLE and n not in held]


def board_of(
    rack: Rack,
    facts: Mapping[str, PhoneFacts],
    entries: Iterable[Entry],
    limits: Mapping[str, float],
    now: float,
) -> Board:
    """`limits`: run that is not in the queue (a terminal's launch) -> when it will be stopped."""
    ring = rack.ring()
    floor = Floor(tuple(ring), tuple(rack.phones[name].switch or "" for name in ring))
    states = {name: derive(facts.get(name, PhoneFacts()), now) for name in ring}
    holds: dict[str, list[str]] = {}
    for name in ring:
        if run := facts.get(name, PhoneFacts()).run:
            holds.setdefault(run, []).append(name)
    running = []
    for entry in entries:
        if entry.given is not None:
            # Until its supervisor has taken them, the queue alone knows whose they are; then
            # the state knows better, since a run changes its phones.
            phones = holds.pop(entry.name, None) or entry.phones
            running.append(Running(entry.name, tuple(phones), ends_of(entry)))
    for run, names in holds.items():
        end = limits.get(run)
        running.append(Running(run, tuple(names), end and end + LATE_SECONDS))
    return Board(floor, states, tuple(running))


def ends_of(entry: Entry) -> float | None:
    if entry.given is None or entry.limit_seconds is None:
        return None
    return entry.given + entry.limit_seconds + LATE_SECONDS
