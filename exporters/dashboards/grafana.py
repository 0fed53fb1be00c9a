"""Grafana's dashboard model (schema of Grafana 11), as far as ours use it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


type Steps = tuple[tuple[str, float | None], ...]
"""Colours and the value from which on each holds; the first has none."""


@dataclass(frozen=True, slots=True)
class Query:
    expression: str
    legend: str = "{{phone}}"


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    description: str
    unit: str
    """One of Grafana's unit identifiers."""
    queries: tuple[Query, ...]
    kind: Literal["timeseries", "stat", "state-timeline"] = "timeseries"
    width: int = 12
    height: int = 8
    least: float | None = None
    most: float | None = None
    steps: Steps = (("green", None),)


def variable(name: str, label: str, query: str, **more: Any) -> dict[str, Any]:
    """A choice among the values that a query of the data source gives."""
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": f"variable-{name}"},
        "refresh": 2,
        "sort": 1,
        **more,
    }


def layout(sections: Mapping[str, tuple[Panel, ...]]) -> list[dict[str, Any]]:
    """All panels with their places: a row a section, filled from the left."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, section in sections.items():
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "gridPos": place, "panels": []}
        )
        x, y = 0, y + 1
        for panel in section:
            if x + panel.width > COLUMNS:
                x, y = 0, y + panel.height
            place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            panels.append({"id": len(panels) + 1, "gridPos": place, **_panel(panel)})
            x += panel.width
        y += section[-1].height
    return panels


def document(
    *,
    uid: str,
    title: str,
    description: str,
    refresh: str,
    since: str,
    chosen: Sequence[dict[str, Any]],
    sections: Mapping[str, tuple[Panel, ...]],
) -> dict[str, Any]:
    """A whole dashboard. `refresh` and `since` as Grafana writes them (10s, now-3h); `chosen` are
    the variables beside the data source."""
    source = {
        "type": "datasource",
        "name": "datasource",
        "label": "Prometheus",
        "query": "prometheus",
    }
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["phonerack"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": refresh,
        "time": {"from": since, "to": "now"},
        "timezone": "browser",
        "templating": {"list": [source, *chosen]},
        "panels": layout(sections),
    }


def several(name: str, label: str, query: str) -> dict[str, Any]:
    """A variable of which any number of values is chosen, all at first."""
    return variable(
        name,
        label,
        query,
        multi=True,
        includeAll=True,
        allValue=".+",
        current={"text": ["All"], "value": ["$__all"]},
    )


def _panel(panel: Panel) -> dict[str, Any]:
    limits = {"min": panel.least, "max": panel.most}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                **{name: limit for name, limit in limits.items() if limit is not None},
                "thresholds": {
                    "mode": "absolute",
                    "steps": [{"color": color, "value": value} for color, value in panel.steps],
                },
                "color": {
                    "mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"
                },
            },
            "overrides": [],
        },
        "options": _options(panel),
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": DATASOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area"}
    if panel.kind == "state-timeline":
        return {"mergeValues": True, "showValue": "never"}
    return {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
