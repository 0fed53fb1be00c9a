"""The dashboard files: their structure, and the contract of their queries with the exporters."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from exporters.dashboards import rack, switches
from exporters.metrics import CATALOGUE
from exporters.switches.metrics import CATALOGUE as OF_SWITCHES

FOLDER = Path(__file__).resolve().parents[2] / "exporters/dashboards"
FILES = {name: FOLDER / f"{name}.json" for name in ("rack", "switches")}
MADE: dict[str, dict[str, Any]] = {"rack": rack.dashboard(), "switches": switches.dashboard()}
DASHBOARDS: dict[str, dict[str, Any]] = {
    name: json.loads(file.read_text(encoding="utf-8")) for name, file in FILES.items()
}
PANELS = [
    panel
    for dashboard in DASHBOARDS.values()
    for panel in dashboard["panels"]
    if panel["type"] != "row"
]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
ALL = (*CATALOGUE, *OF_SWITCHES)

METRICS = {metric.name: set(metric.labels) for metric in ALL} | {"up": set()}
TARGET_LABELS = {"job", "instance", "phone", "rack", "switch", "port"}
SWITCH_LABELS = {"sensor", "setting"}
UNITS = {"none", "celsius", "percentunit", "s", "bytes", "Bps", "watt", "bool_yes_no"}
"""Of Grafana; `suffix:` makes one."""


each = pytest.mark.parametrize("name", list(FILES))


@each
def test_the_file_is_what_the_code_gives(name: str) -> None:
    assert json.loads(json.dumps(MADE[name])) == DASHBOARDS[name], (
        f"run: python -m exporters.dashboards.{name} > exporters/dashboards/{name}.json"
    )


@each
def test_panel_ids_are_unique(name: str) -> None:
    ids = [panel["id"] for panel in DASHBOARDS[name]["panels"]]
    assert len(set(ids)) == len(ids)


@each
def test_the_dashboard_can_be_linked_and_belongs_to_no_installation(name: str) -> None:
    assert re.fullmatch(r"[a-z-]{1,40}", DASHBOARDS[name]["uid"])
    assert "id" not in DASHBOARDS[name]


@each
def test_panels_stand_on_the_grid_without_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARDS[name]["panels"]:
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


@each
def test_every_variable_in_use_is_declared_and_every_declared_one_is_used(name: str) -> None:
    declared = {variable["name"] for variable in DASHBOARDS[name]["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z][a-z_]*)", FILES[name].read_text(encoding="utf-8")))
    assert used == declared


def test_panels_take_the_data_source_that_is_chosen() -> None:
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_query_asks_for_what_the_exporters_give(expression: str) -> None:
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
    labels = TARGET_LABELS | SWITCH_LABELS
    kept = set(by[1].split(", ")) if by else set() if aggregated else labels
    assert named <= kept


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_counters_and_only_counters_are_rated_over_an_interval_that_fits(expression: str) -> None:
    rated = set(re.findall(r"rate\((\w+)\{[^}]*\}\[\$__rate_interval\]\)", expression))
    counters = {metric.name for metric in ALL if metric.kind == "counter"}
    assert rated == counters & set(re.findall(r"\w+", expression))
    assert expression.count("[") == len(rated)
