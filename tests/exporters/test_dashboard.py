"""The dashboard file: its structure, and the contract of its queries with the exporter."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from exporters.dashboards.rack import dashboard
from exporters.metrics import CATALOGUE

FILE = Path(__file__).resolve().parents[2] / "exporters/dashboards/rack.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]

METRICS = {metric.name: set(metric.labels) for metric in CATALOGUE} | {"up": set()}
TARGET_LABELS = {"job", "instance", "phone", "rack", "switch", "port"}
UNITS = {"none", "celsius", "percentunit", "s", "bytes", "watt", "bool_yes_no"}
"""Of Grafana; `suffix:` makes one."""


def test_the_file_is_what_the_code_gives() -> None:
    assert json.loads(json.dumps(dashboard())) == DASHBOARD, (
        "run: python -m exporters.dashboards.rack > exporters/dashboards/rack.json"
    )


def test_panel_ids_are_unique() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_the_dashboard_can_be_linked_and_belongs_to_no_installation() -> None:
    assert re.fullmatch(r"[a-z-]{1,40}", DASHBOARD["uid"])
    assert "id" not in DASHBOARD


def test_panels_stand_on_the_grid_without_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows_in_which_unit(panel: dict[str, Any]) -> None:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    assert unit in UNITS or unit.startswith("suffix:")
    assert panel["description"].endswith(".")
    assert panel["targets"]
    references = [target["refId"] for target in panel["targets"]]
    assert len(set(references)) == len(references)


def test_every_variable_in_use_is_declared_and_every_declared_one_is_used() -> None:
    declared = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z][a-z_]*)", FILE.read_text(encoding="utf-8")))
    assert used == declared


def test_panels_take_the_data_source_that_is_chosen() -> None:
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_query_asks_for_what_phones_give(expression: str) -> None:
    metrics = set(re.findall(r"\b(?:phonerack_\w+|process_\w+|up\b)", expression))
    assert metrics
    assert metrics <= set(METRICS)
    labels = TARGET_LABELS.union(*(METRICS[metric] for metric in metrics))
    selected = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
    grouped = [name for by in re.findall(r"by \(([^)]*)\)", expression) for name in by.split(", ")]
    assert set(selected) | set(grouped) <= labels
    assert 'rack="$rack"' in expression


@pytest.mark.parametrize(
    "target",
    [target for panel in PANELS for target in panel["targets"]],
    ids=lambda target: target["expr"],
)
def test_a_legend_names_labels_that_the_query_keeps(target: dict[str, Any]) -> None:
    named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    by = re.search(r"by \(([^)]*)\)", target["expr"])
    aggregated = re.match(r"(?:sum|avg|min|max|count)\b", target["expr"])
    kept = set(by[1].split(", ")) if by else set() if aggregated else TARGET_LABELS
    assert named <= kept


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_counters_and_only_counters_are_rated_over_an_interval_that_fits(expression: str) -> None:
    rated = set(re.findall(r"rate\((\w+)\{[^}]*\}\[\$__rate_interval\]\)", expression))
    counters = {metric.name for metric in CATALOGUE if metric.kind == "counter"}
    assert rated == counters & set(re.findall(r"\w+", expression))
    assert expression.count("[") == len(rated)
