"""The dashboard files: generated, well laid out, described, linked; Grafana's own types read them.

What their queries ask for is tests/monitoring's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

from exporters.dashboards.__main__ import SOURCES, text

FOLDER = Path(__file__).resolve().parents[2] / "exporters/dashboards"
FILES = {name: FOLDER / f"{name}.json" for name in SOURCES}
DASHBOARDS: dict[str, dict[str, Any]] = {
    name: json.loads(file.read_text(encoding="utf-8")) for name, file in FILES.items()
}
PANELS = [
    pytest.param(panel, id=f"{name}: {panel['title']}")
    for name, dashboard in DASHBOARDS.items()
    for panel in dashboard["panels"]
    if panel["type"] != "row"
]
UNITS = {value for value in vars(units).values() if isinstance(value, str)}

each = pytest.mark.parametrize("name", list(SOURCES))
each_panel = pytest.mark.parametrize("panel", PANELS)


def test_every_file_has_a_source() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == set(SOURCES)


@each
def test_the_file_is_what_the_code_gives(name: str) -> None:
    assert FILES[name].read_text(encoding="utf-8") == text(name), (
        "run: python -m exporters.dashboards"
    )


@each
def test_the_dashboard_can_be_linked_and_belongs_to_no_installation(name: str) -> None:
    dashboard = DASHBOARDS[name]
    assert dashboard["uid"] == f"phonerack-{name}"
    assert re.fullmatch(r"[a-z-]{1,40}", dashboard["uid"])
    assert dashboard["title"] == f"phonerack: {name}"
    assert dashboard["description"].endswith(".")
    assert "id" not in dashboard


@each
def test_panels_have_ids_and_titles_of_their_own(name: str) -> None:
    for key in ("id", "title"):
        values = [panel[key] for panel in DASHBOARDS[name]["panels"] if panel["type"] != "row"]
        assert len(set(values)) == len(values)
    ids = [panel["id"] for panel in DASHBOARDS[name]["panels"]]
    assert len(set(ids)) == len(ids)


@each
def test_panels_stand_on_the_grid_without_overlap_and_without_gaps_between_rows(name: str) -> None:
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
    lines = {y for _, y in taken}
    assert lines == set(range(len(lines)))


@each_panel
def test_a_panel_says_what_it_shows_in_which_unit(panel: dict[str, Any]) -> None:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    assert unit in UNITS or unit.startswith("suffix: ")
    assert panel["description"].endswith(".")
    assert panel["targets"]
    references = [target["refId"] for target in panel["targets"]]
    assert len(set(references)) == len(references)
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


@each
def test_every_variable_in_use_is_declared_and_every_declared_one_is_used(name: str) -> None:
    declared = {variable["name"] for variable in DASHBOARDS[name]["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z][a-z_]*)", FILES[name].read_text(encoding="utf-8")))
    assert used == declared
    assert {"datasource", "rack"} <= declared


@each
def test_links_lead_to_the_other_dashboards_with_the_rack(name: str) -> None:
    links = DASHBOARDS[name]["links"]
    uids = {other: dashboard["uid"] for other, dashboard in DASHBOARDS.items()}
    assert {link["url"] for link in links} == {
        f"/d/{uid}?${{rack:queryparam}}" for other, uid in uids.items() if other != name
    }
    assert all(link["keepTime"] for link in links)
    paths = re.findall(r'"/d/([^?"]+)', FILES[name].read_text(encoding="utf-8"))
    assert set(paths) <= set(uids.values())


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where something of ours is missing in `theirs` or is another there."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key not in theirs:
                yield f"{path}.{key} is lost"
            else:
                yield from differences(value, theirs[key], f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif ours != theirs:
        yield f"{path} was {ours!r} and became {theirs!r}"


OF_PROMETHEUS = re.compile(r"\.annotations\.list\[\d+\]\.(step|titleFormat|tagKeys) is lost")
"""What Grafana's Prometheus source reads of an annotation, and its general type does not know."""


@each
def test_grafanas_own_types_read_all_of_it_and_write_the_same(name: str) -> None:
    """Nothing is lost, renamed or of another kind; what they add is their defaults."""
    plugins.register_default_plugins()
    read = Dashboard.from_json(DASHBOARDS[name])
    written = json.loads(JSONEncoder().encode(read))
    found = list(differences(DASHBOARDS[name], written))
    assert [line for line in found if not OF_PROMETHEUS.fullmatch(line)] == []
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(written)))
    assert again == written
