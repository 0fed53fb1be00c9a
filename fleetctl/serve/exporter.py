"""The fleet exporter: what the controller knows of the rack, for Prometheus.

A scrape tells what the service saw in its last turn, and what time it is, so that an old turn is
known for one; it asks no database and no phone, so it can neither hang nor fail.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleetctl import __version__
from fleetctl.errors import FleetError
from fleetctl.rack import InputError, Rack
from fleetctl.rack.nodesets import fold
from fleetctl.rack.variables import FLEET_EXPORTER_PORT, LOOPBACK
from fleetctl.serve.beside import CAUSES, Beside
from fleetctl.serve.last_checks import Checked
from fleetctl.serve.service import Turn

STATES = ("ready", "busy", "draining", "drained", "suspect", "lost", "needs-hands")
ORIGINS = ("person", "check", "guard")


@dataclass(frozen=True, slots=True)
class Seen:
    """What the service knows after a turn."""

    turn: Turn
    checked: Mapping[str, Checked]
    turns: int
    """Since the service began."""
    beside: Beside = field(default_factory=Beside)


def families(seen: Seen) -> list[Metric]:
    """The whole page, with the time now."""
    own = (*_service(seen), _clock(seen))
    return [*_phones(seen), *_jobs(seen), *_checks(seen), *_beside(seen), *own]


def _phones(seen: Seen) -> Iterable[Metric]:
    rack = seen.turn.rack.name
    counts: Counter[str] = Counter(seen.turn.board.states.values())
    by_state = _gauge("phones", "Phones of the rack file, by state.", "state")
    for state in STATES:
        by_state.add_metric([rack, state], counts[state])
    each = _gauge("phone_state", "1 for the state that the phone is in.", "phone", "state")
    for phone, state in seen.turn.board.states.items():
        each.add_metric([rack, phone, state], 1)
    drains: Counter[str] = Counter(
        drain.origin for known in seen.turn.facts.values() for drain in known.drains
    )
    by_origin = _gauge("drains", "Drains that hold, by who has set them.", "origin")
    for origin in dict.fromkeys([*ORIGINS, *drains]):
        by_origin.add_metric([rack, origin], drains[origin])
    expected = _gauge("targets_expected", "Phone exporters that Prometheus should scrape.")
    expected.add_metric([rack], len(seen.turn.board.states))
    return by_state, each, by_origin, expected, _window(seen.turn.rack)


def _window(rack: Rack) -> Metric:
    """Nothing where guard has no window to keep, or no outlet to keep it by."""
    window = _gauge(
        "charge_window_ratio", "Charge between which guard keeps phones without a job.", "end"
    )
    if rack.outlets and rack.guard.charge_high_percent < 100:
        window.add_metric([rack.name, "low"], rack.guard.charge_low_percent / 100)
        window.add_metric([rack.name, "high"], rack.guard.charge_high_percent / 100)
    return window


def _jobs(seen: Seen) -> Iterable[Metric]:
    rack, turn = seen.turn.rack.name, seen.turn
    waiting = [entry for entry in turn.entries if entry.waits]
    jobs = _gauge("jobs", "Jobs that are not over, by state.", "state")
    jobs.add_metric([rack, "queued"], len(waiting))
    jobs.add_metric([rack, "running"], len(turn.board.running))
    yield jobs
    held = _gauge("run_phones", "Phones that a run holds, spares included.", "run")
    for run in turn.board.running:
        held.add_metric([rack, run.name], len(run.phones))
    yield held
    wanted = _gauge("queue_phones", "Phones without which the jobs in the queue do not start.")
    wanted.add_metric([rack], sum(entry.least for entry in waiting))
    yield wanted
    longest = _gauge(
        "queue_longest_wait_seconds", "How long the oldest job in the queue has waited."
    )
    arrived = min((entry.arrived for entry in waiting), default=turn.time)
    longest.add_metric([rack], max(turn.time - arrived, 0.0))
    yield longest
    failing = _gauge("queue_failing", "Jobs in the queue whose last start failed.")
    failing.add_metric([rack], sum(entry.trouble is not None for entry in waiting))
    yield failing


def _checks(seen: Seen) -> Iterable[Metric]:
    """Of the last `fleetctl check cables` and the like; nothing where none was made."""
    rack = seen.turn.rack.name
    wrong = _gauge("check_findings", "What the last check of this kind found wrong.", "check")
    made = _gauge("check_timestamp_seconds", "When that check was made.", "check")
    for name, result in seen.checked.items():
        wrong.add_metric([rack, name], result.findings)
        made.add_metric([rack, name], result.time)
    return wrong, made


def _beside(seen: Seen) -> Iterable[Metric]:
    """Guard tells Prometheus nothing itself, so that it needs nobody: this is what it has kept."""
    rack, beside = seen.turn.rack.name, seen.beside
    failed = _gauge("failed_runs", "Runs that failed within the last hour, by cause.", "cause")
    if beside.failed is not None:
        for cause in CAUSES:
            failed.add_metric([rack, cause], beside.failed.get(cause, 0))
    yield failed
    trains = _gauge("run_trains", "1 for a run of the trainer that has begun.", "run")
    for run in beside.training or ():
        trains.add_metric([rack, run], 1)
    yield trains
    if beside.guard is None:
        return
    decided = _gauge("guard_timestamp_seconds", "When guard last decided anything.")
    decided.add_metric([rack], beside.guard.decided)
    latched = _gauge("guard_latched", "Phones that guard keeps cut off until a person clears them.")
    latched.add_metric([rack], beside.guard.latched)
    calls = _gauge("guard_calls", "Phones for which guard calls a person, by what for.", "what")
    for what, count in sorted(beside.guard.calls.items()):
        calls.add_metric([rack, what], count)
    yield from (decided, latched, calls)


def _service(seen: Seen) -> Iterable[Metric]:
    rack = seen.turn.rack.name
    info = _gauge("serve_info", "The version of fleetctl that serves the rack.", "version")
    info.add_metric([rack, __version__], 1)
    turn = _gauge("turn_timestamp_seconds", "When the service last looked at everything.")
    turn.add_metric([rack], seen.turn.time)
    took = _gauge("decision_seconds", "How long it took to decide who starts.")
    took.add_metric([rack], seen.turn.decision_seconds)
    turns = CounterMetricFamily("phonerack_fleet_turns", "Looks so far.", labels=["rack"])
    turns.add_metric([rack], seen.turns)
    return info, turn, took, turns


def _clock(seen: Seen) -> Metric:
    clock = _gauge("clock_timestamp_seconds", "What the controller takes for the time.")
    clock.add_metric([seen.turn.rack.name], time.time())
    return clock


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"phonerack_fleet_{name}", text, labels=["rack", *labels])


class FleetCollector(Collector):
    """Tells what `look` gives; before the first turn, nothing."""

    def __init__(self, look: Callable[[], Seen | None]) -> None:
        self._look = look

    def describe(self) -> Iterable[Metric]:
        """Without it, registering would call `collect`."""
        return []

    def collect(self) -> Iterable[Metric]:
        seen = self._look()
        return families(seen) if seen is not None else []


@dataclass(frozen=True, slots=True)
class Address:
    """Where the exporter listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def read_address(text: str) -> Address | None:
    """`127.0.0.1:9867`, `10.0.0.1`, or `off`. Raises InputError."""
    if text == "off":
        return None
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, str(FLEET_EXPORTER_PORT)
    with suppress(ValueError):
        number = int(port)
        if host and 0 < number < 65536:
            return Address(host, number)
    raise InputError(
        f"{text!r} is no address to listen on; write one such as {LOOPBACK}:{FLEET_EXPORTER_PORT}"
    )


def listen(address: Address, look: Callable[[], Seen | None]) -> WSGIServer:
    """Serve the page from a thread of its own. Raises FleetError when the address is taken."""
    registry = CollectorRegistry()
    registry.register(FleetCollector(look))
    try:
        server, _ = start_http_server(address.port, address.host, registry)
    except OSError as problem:
        raise FleetError(
            f"the exporter cannot listen on {address}: {problem.strerror or problem}; choose "
            "another by --metrics, or `--metrics off`"
        ) from None
    return server


def started(turn: Turn) -> str:
    """One line on the rack as the service first sees it."""
    counts: Counter[str] = Counter(turn.board.states.values())
    states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    queued = sum(entry.waits for entry in turn.entries)
    names = fold(turn.board.states) if turn.board.states else "no phone"
    return f"{names}: {states or 'none'}; {queued} jobs queued, {len(turn.board.running)} running"
