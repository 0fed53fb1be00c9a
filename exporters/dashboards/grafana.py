"""Grafana's dashboard model (schema of Grafana 11), as far as ours use it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any, Literal

COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

type Json = dict[str, Any]
type Steps = tuple[tuple[str, float | None], ...]
"""Colours and the value from which on each holds; the first has none."""
type Kind = Literal["timeseries", "stat", "state-timeline", "table", "bargauge"]

PLAIN: Steps = (("green", None),)


@dataclass(frozen=True, slots=True)
class Query:
    """One expression and how its series are named; `instant` asks for the newest values only."""

    expression: str
    legend: str = "{{phone}}"
    instant: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """How a value is shown: as this text, in this colour."""

    value: int
    text: str
    color: str


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    description: str
    unit: str
    """One of Grafana's unit identifiers."""
    queries: tuple[Query, ...]
    kind: Kind = "timeseries"
    width: int = 12
    height: int = 8
    least: float | None = None
    most: float | None = None
    steps: Steps = PLAIN
    decimals: int | None = None
    said: tuple[Said, ...] = ()
    has_gaps: bool = False
    """Whether a missing value has neither text nor colour."""
    stacked: bool = False
    cells: Json | None = None
    """Of a table: how its cells are drawn, and how wide."""
    transformations: tuple[Json, ...] = ()
    overrides: tuple[Json, ...] = ()
    links: tuple[Json, ...] = ()
    """Where a click on a value leads."""
    may_be_empty: str = ""
    """Why the panel may show nothing although all is well. Shown after the description."""


def layout(sections: Mapping[str, tuple[Panel, ...]]) -> list[Json]:
    """All panels with their places: a row a section, filled from the left."""
    panels: list[Json] = []
    y = 0
    for title, section in sections.items():
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": place,
                "panels": [],
            }
        )
        x, y, tallest = 0, y + 1, 0
        for panel in section:
            if x + panel.width > COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            panels.append({"id": len(panels) + 1, "gridPos": place, **_panel(panel)})
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return panels


def document(
    *,
    uid: str,
    title: str,
    description: str,
    refresh: str,
    since: str,
    variables: Sequence[Json],
    annotations: Sequence[Json],
    links: Sequence[Json],
    sections: Mapping[str, tuple[Panel, ...]],
) -> Json:
    """A whole dashboard. `refresh` and `since` as Grafana writes them (10s, now-3h); `variables`
    are those beside the data source."""
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
        "templating": {"list": [source, *variables]},
        "annotations": {"list": list(annotations)},
        "links": list(links),
        "panels": layout(sections),
    }


def variable(name: str, label: str, query: str, **more: Any) -> Json:
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


def several(name: str, label: str, query: str) -> Json:
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


def annotation(name: str, color: str, expression: str, title: str, tags: str) -> Json:
    """Times at which an expression is not 0, across all graphs; one after another they are drawn as
    one region. `tags` are labels, with commas."""
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": color,
        "expr": expression,
        "step": "15s",
        "titleFormat": title,
        "tagKeys": tags,
    }


def link(title: str, uid: str, chosen: str) -> Json:
    """A way to another dashboard, for the same time. `chosen` are the variables that go along, as
    Grafana writes them into an address (`${rack:queryparam}`)."""
    return {
        "title": title,
        "type": "link",
        "icon": "dashboard",
        "tooltip": "",
        "url": f"/d/{uid}?{chosen}",
        "tags": [],
        "asDropdown": False,
        "targetBlank": False,
        "includeVars": False,
        "keepTime": True,
    }


def by_name(field: str, **properties: Any) -> Json:
    """An override of one field of a table; `__` in a property's name stands for a point."""
    changed = [{"id": name.replace("__", "."), "value": v} for name, v in properties.items()]
    return {"matcher": {"id": "byName", "options": field}, "properties": changed}


def _panel(panel: Panel) -> Json:
    defaults: Json = {
        "unit": panel.unit,
        "thresholds": {
            "mode": "absolute",
            "steps": [{"color": color, "value": value} for color, value in panel.steps],
        },
        "color": {"mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"},
        "custom": _custom(panel),
    }
    limits = {"min": panel.least, "max": panel.most, "decimals": panel.decimals}
    defaults |= {name: limit for name, limit in limits.items() if limit is not None}
    if panel.links:
        defaults["links"] = list(panel.links)
    if mappings := list(_mappings(panel)):
        defaults["mappings"] = mappings
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": " ".join(filter(None, (panel.description, panel.may_be_empty))),
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": list(panel.overrides)},
        "options": _options(panel),
        "transformations": list(panel.transformations),
        "targets": [
            _target(reference, query, panel)
            for reference, query in zip(ascii_uppercase, panel.queries, strict=False)
        ],
    }


def _mappings(panel: Panel) -> Iterator[Json]:
    if panel.said:
        shown = {str(s.value): {"text": s.text, "color": s.color} for s in panel.said}
        yield {"type": "value", "options": shown}
    if panel.has_gaps:
        nothing = {"match": "null", "result": {"text": "", "color": "transparent"}}
        yield {"type": "special", "options": nothing}


def _target(reference: str, query: Query, panel: Panel) -> Json:
    instant = query.instant or panel.kind in ("table", "bargauge")
    return {
        "refId": reference,
        "datasource": DATASOURCE,
        "expr": query.expression,
        "legendFormat": query.legend,
        "instant": instant,
        "range": not instant,
        "format": "table" if panel.kind == "table" else "time_series",
    }


def _custom(panel: Panel) -> Json:
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        return {"fillOpacity": 30 if panel.stacked else 0, "stacking": stacking}
    if panel.kind == "state-timeline":
        return {"fillOpacity": 70, "lineWidth": 0}
    return panel.cells or {}


def _options(panel: Panel) -> Json:
    newest = {"calcs": ["lastNotNull"], "values": False, "fields": ""}
    if panel.kind == "stat":
        return {"reduceOptions": newest, "graphMode": "area"}
    if panel.kind == "bargauge":
        return {
            "reduceOptions": newest,
            "orientation": "horizontal",
            "displayMode": "basic",
            "valueMode": "color",
        }
    if panel.kind == "table":
        return {"showHeader": True, "cellHeight": "sm"}
    if panel.kind == "state-timeline":
        return {"mergeValues": True, "showValue": "auto" if panel.said else "never"}
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
