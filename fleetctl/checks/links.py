"""Phones' links: what the switch exporter has recorded of them, and what switches answer."""

from __future__ import annotations

import http.client
import json
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fleetctl.rack import Rack
from fleetctl.rack.nodesets import fold
from fleetctl.rack.variables import watched_switches

MANY_FLAPS = 3
"""So many in a quarter of an hour are no plug that somebody moved."""

_LIMIT_SECONDS = 5.0
_PORT = 9090
_COUNTERS = {
    "flaps": "phonerack_switch_port_flaps_total",
    "receive_errors": "phonerack_switch_port_receive_errors_total",
    "transmit_errors": "phonerack_switch_port_transmit_errors_total",
    "transmit_discards": "phonerack_switch_port_transmit_discards_total",
}
_GAUGES = {
    "speed_bytes": "phonerack_switch_port_speed_bytes",
    "full_duplex": "phonerack_switch_port_full_duplex",
}
_GIGABIT_BYTES = 125_000_000
BYTES_A_MEGABIT = 125_000
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The rack's own machines are never behind a proxy."""

_FIELD = "field"
"""The label that tells answers apart."""


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """One phone's link as its switch sees it: now, and what happened of late."""

    flaps: float = 0.0
    receive_errors: float = 0.0
    transmit_errors: float = 0.0
    transmit_discards: float = 0.0
    speed_bytes: float | None = None
    full_duplex: float | None = None

    @property
    def trouble(self) -> str:
        """What is wrong, or nothing. A discard or two under load is TCP at work."""
        said = []
        if self.speed_bytes is not None and self.speed_bytes < _GIGABIT_BYTES:
            said.append(f"{self.speed_bytes / BYTES_A_MEGABIT:.0f} Mb/s link")
        if self.full_duplex == 0:
            said.append("half duplex")
        if self.flaps >= 1:
            said.append(f"its link came and went {self.flaps:.0f} times")
        if self.receive_errors >= 1:
            said.append(f"{self.receive_errors:.0f} damaged frames came from it")
        if self.transmit_errors >= 1:
            said.append(f"{self.transmit_errors:.0f} frames could not be sent to it")
        return ", ".join(said)


def recent(
    rack: Rack, window: str = "1h", limit_seconds: float = _LIMIT_SECONDS
) -> dict[str, LinkCounters] | None:
    """By phone; None where nothing is recorded: no watched switch, or no Prometheus.

    `window` as Prometheus writes it is how far back "of late" goes.
    """
    address = rack.network.services or rack.network.controller
    if address is None or not watched_switches(rack):
        return None
    chosen = f'{{rack="{rack.name}", phone!=""}}'
    asked = {field: f"increase({name}{chosen}[{window}])" for field, name in _COUNTERS.items()}
    asked |= {field: f"{name}{chosen}" for field, name in _GAUGES.items()}
    rows = _ask(address, asked, limit_seconds)
    return {phone: LinkCounters(**values) for phone, values in rows.items()} or None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a switch answered about one phone's link; None is what it did not tell."""

    speed_mbits: int | None = None
    full_duplex: bool | None = None


def with_asked(
    counted: Mapping[str, LinkCounters] | None, asked: Mapping[str, Asked]
) -> dict[str, LinkCounters]:
    """Records of links, with the present where the switch itself was asked about it."""
    links = dict(counted or {})
    for name, now in asked.items():
        link = links.get(name, LinkCounters())
        if now.speed_mbits is not None:
            link = replace(link, speed_bytes=float(now.speed_mbits * BYTES_A_MEGABIT))
        if now.full_duplex is not None:
            link = replace(link, full_duplex=float(now.full_duplex))
        links[name] = link
    return links


def unknown(
    rack: Rack,
    counted: Mapping[str, LinkCounters] | None,
    names: Iterable[str],
    asked: Mapping[str, Asked] | None = None,
) -> str | None:
    """Why nothing is recorded of the links of `names`, or some of them; None where all is told.

    Switches that are not managed are expected to say nothing.
    """
    managed = {item.name for item in rack.switches.values() if item.platform != "unmanaged"}
    silent = [
        name
        for name in names
        if rack.phones[name].switch in managed and name not in (counted or {})
    ]
    if not silent:
        return None
    present = "" if set(silent) <= set(asked or {}) else "speed, duplex, "
    what = f"{present}errors and flaps of {fold(silent)} are not known"
    if not rack.network.snmp_community:
        return f"{what}: `network:` in the rack file has no `snmp:` (docs/switches.md)"
    return f"{what}: the switch exporter has recorded nothing of them yet"


def _ask(
    address: str, asked: Mapping[str, str], limit_seconds: float
) -> dict[str, dict[str, float]]:
    """Values of several expressions by phone, then by name of the expression, in one question.

    Nothing where nobody answers it.
    """
    together = " or ".join(
        f'label_replace({expression}, "{_FIELD}", "{field}", "", "")'
        for field, expression in asked.items()
    )
    query = urllib.parse.urlencode({"query": together})
    url = f"http://{address}:{_PORT}/api/v1/query?{query}"
    found: dict[str, dict[str, float]] = {}
    try:
        with _DIRECT.open(url, timeout=limit_seconds) as answer:
            document = json.load(answer)
        for row in document["data"]["result"]:
            metric = row["metric"]
            found.setdefault(metric["phone"], {})[metric[_FIELD]] = float(row["value"][1])
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        return {}
    return found
