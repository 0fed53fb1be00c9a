"""What energy a run took, as far as anybody measured it: by switches that feed phones, and by the
phones' own batteries while nothing charges them. Prometheus has recorded both."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import suppress

from fleetctl.jobs.cost import Held, held
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import Rack

_PORT = 9090
_LIMIT_SECONDS = 5.0
_SHORTEST_SECONDS = 30
"""A run of less has too few samples to be measured by."""

WHOLE = 0.8
"""Part of the time for which there must be samples: of less, nobody knows the rest."""

_SOURCES = (
    "phonerack_switch_port_poe_power_watts{%s}",
    # A battery that charges tells what flows into it, not what the phone takes.
    "phonerack_battery_power_watts{%s} and on (phone) (phonerack_battery_plugged{%s} == 0)",
)
"""Watts of a phone, the better source first."""


def watt_hours(spans: Iterable[Held], watts: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Energy by phone. `watts`: phone -> its mean, and for which part of the time it is known."""
    seconds: dict[str, float] = {}
    for span in spans:
        seconds[span.phone] = seconds.get(span.phone, 0.0) + span.until - span.since
    return {
        phone: round(watts[phone][0] * length / 3600, 4)
        for phone, length in seconds.items()
        if phone in watts and watts[phone][1] >= WHOLE
    }


async def measure(rack: Rack, run: RunFolder) -> None:
    """Write what was measured into the run's events; nothing where nothing was."""
    events = run.events()
    spans = held(events, time.time())
    address = rack.network.services or rack.network.controller
    if not spans or address is None:
        return
    since, until = spans[0].since, max(span.until for span in spans)
    if until - since < _SHORTEST_SECONDS:
        return
    found = await asyncio.to_thread(_mean_watts, address, rack.name, since, until)
    if energy := watt_hours(spans, found):
        with suppress(OSError):
            run.record("energy", watt_hours=energy)


def _mean_watts(
    address: str, rack: str, since: float, until: float
) -> dict[str, tuple[float, float]]:
    """Phone -> mean watts and the part of the time that they are known for."""
    window = round(until - since)
    step = max(window // 200, 5)
    chosen = f'rack="{rack}", phone!=""'
    found: dict[str, tuple[float, float]] = {}
    for source in _SOURCES:
        watts = source % ((chosen,) * source.count("%s"))
        over = f"(({watts})[{window}s:{step}s])"
        mean = _ask(address, f"avg by (phone) (avg_over_time{over})", until)
        if mean is None:
            break
        count = _ask(address, f"max by (phone) (count_over_time{over})", until) or {}
        for phone, value in mean.items():
            found.setdefault(phone, (value, count.get(phone, 0.0) * step / window))
    return found


def _ask(address: str, expression: str, moment: float) -> dict[str, float] | None:
    """Value by phone; None where nobody answers."""
    query = urllib.parse.urlencode({"query": expression, "time": f"{moment:.3f}"})
    url = f"http://{address}:{_PORT}/api/v1/query?{query}"
    try:
        with urllib.request.urlopen(url, timeout=_LIMIT_SECONDS) as answer:
            rows = json.load(answer)["data"]["result"]
        return {row["metric"]["phone"]: float(row["value"][1]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError):
        return None
