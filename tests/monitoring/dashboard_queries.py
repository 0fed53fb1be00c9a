"""All that the dashboards ask of Prometheus: the queries of panels, annotations and variables."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live import SOURCES, Series

FOLDER = Path(__file__).resolve().parents[2] / "exporters/dashboards"
DASHBOARDS: dict[str, dict[str, Any]] = {
    file.stem: json.loads(file.read_text(encoding="utf-8")) for file in FOLDER.glob("*.json")
}


@dataclass(frozen=True)
class Asked:
    """One query, and the limits that its panel draws."""

    dashboard: str
    title: str
    expression: str
    legend: str = ""
    unit: str = "none"
    least: float | None = None
    most: float | None = None

    def name(self) -> str:
        return f"{self.dashboard}: {self.title}"

    def filled(self, variables: Mapping[str, str]) -> str:
        """The query as Grafana sends it with these values of the variables."""
        text = self.expression
        for name in sorted(variables, key=len, reverse=True):
            text = text.replace(name, variables[name])
        return text


def _of_panels(name: str) -> list[Asked]:
    found = []
    for panel in DASHBOARDS[name]["panels"]:
        for target in panel.get("targets", ()):
            shown = panel["fieldConfig"]["defaults"]
            limits = shown["unit"], shown.get("min"), shown.get("max")
            legend = target["legendFormat"] if target["format"] == "time_series" else ""
            found.append(Asked(name, panel["title"], target["expr"], legend, *limits))
    return found


PANELS = [asked for name in DASHBOARDS for asked in _of_panels(name)]
ANNOTATIONS = [
    Asked(name, each["name"], each["expr"], each["titleFormat"])
    for name, dashboard in DASHBOARDS.items()
    for each in dashboard["annotations"]["list"]
]
CHOICES = [
    Asked(name, each["name"], each["query"]["query"])
    for name, dashboard in DASHBOARDS.items()
    for each in dashboard["templating"]["list"]
    if each["type"] == "query"
]
"""Of variables: `label_values(SERIES, LABEL)`, which Grafana asks of another door."""

IN_RANGE = {
    "celsius": (0, 120),
    "percentunit": (0, 1.05),  # a rate is extrapolated
    "bool_yes_no": (0, 1),
    "bytes": (0, math.inf),
    "Bps": (0, math.inf),
    "hertz": (1e8, 5e9),
    "volt": (2.5, 5),
    "amp": (-10, 10),
    "watt": (0, 5000),
    "joule": (0, 10_000),
}
"""What values of a unit can be, on phones and switches."""


def has_values(asked: Asked, series: Series) -> bool:
    """Whether a query has given any. They must be in the ranges of panel and unit, and bear the
    labels that the legend names."""
    low, high = IN_RANGE.get(asked.unit, (-math.inf, math.inf))
    low = max(low, -math.inf if asked.least is None else asked.least)
    high = min(high, math.inf if asked.most is None else asked.most)
    for labels, value in series:
        assert low <= value <= high, f"{asked.name()}: {value} of {labels} in {asked.expression}"
    named = set(re.findall(r"{{(\w+)}}", asked.legend)) if asked in PANELS else set()
    assert not series or any(named <= labels.keys() for labels, _ in series), asked
    return bool(series)


DENIED = SOURCES | {"phone:frequency_": "frequency"}
"""Sources that a vendor may deny, and so a stand-in, by what is made of them."""


def is_denied(asked: Asked, ask: Callable[[str], Series]) -> bool:
    """Whether every phone says that it cannot read what the query asks for."""
    sources = {source for stem, source in DENIED.items() if stem in asked.expression}
    working = {labels["source"] for labels, _ in ask("phonerack_collector_success == 1")}
    return bool(sources) and not sources & working
