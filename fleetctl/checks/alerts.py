"""Alerts that fire now, as the rack's monitoring tells them."""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetctl.rack import Rack

ALERTMANAGER_PORT = 9093
PROMETHEUS_PORT = 9090
_LIMIT_SECONDS = 2.0
_MOST_BYTES = 4 << 20
_ORDER = {"critical": 0, "error": 1, "warning": 2, "info": 3}


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert; `phone` is empty where it is about no phone. `summary` is its author's text."""

    name: str
    severity: str = ""
    phone: str = ""
    summary: str = ""


def firing(
    rack: Rack,
    limit_seconds: float = _LIMIT_SECONDS,
    ports: tuple[int, int] = (ALERTMANAGER_PORT, PROMETHEUS_PORT),
) -> list[Alert] | None:
    """What Alertmanager holds for active, silenced and inhibited ones left out, the worst first.

    Of a Prometheus without an Alertmanager, what it says itself. None where neither answers.
    """
    address = rack.network.services or rack.network.controller
    if address is None:
        return None
    manager, prometheus = ports
    query = "active=true&silenced=false&inhibited=false"
    said = _get(f"http://{address}:{manager}/api/v2/alerts?{query}", limit_seconds)
    if said is not None:
        return parse(said, rack.name)
    said = _get(f"http://{address}:{prometheus}/api/v1/alerts", limit_seconds)
    return None if said is None else parse(said, rack.name)


def parse(document: Any, rack: str) -> list[Alert]:
    """The alerts of a rack in an answer of Alertmanager or of Prometheus; odd ones are left out."""
    if isinstance(document, Mapping):
        data = document.get("data")
        document = data.get("alerts") if isinstance(data, Mapping) else None
    found = []
    for each in document if isinstance(document, Sequence) else ():
        if not isinstance(each, Mapping) or each.get("state", "firing") != "firing":
            continue
        labels, texts = _texts(each.get("labels")), _texts(each.get("annotations"))
        if labels.get("rack", rack) == rack and labels.get("alertname"):
            summary = texts.get("summary") or texts.get("description") or ""
            found.append(
                Alert(
                    labels["alertname"],
                    labels.get("severity", ""),
                    labels.get("phone", ""),
                    " ".join(summary.split()),
                )
            )
    return sorted(found, key=lambda each: (_ORDER.get(each.severity, 4), each.name, each.phone))


def _texts(pairs: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in pairs.items()} if isinstance(pairs, Mapping) else {}


def _get(url: str, limit_seconds: float) -> Any:
    """The JSON document of an address; None where there is none."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=limit_seconds) as answer:
            return json.loads(answer.read(_MOST_BYTES))
    except (OSError, http.client.HTTPException, ValueError):
        return None
