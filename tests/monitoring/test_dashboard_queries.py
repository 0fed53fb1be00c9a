"""The dashboards' contract with exporters and rules: all that they ask for is given by somebody."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from dashboard_queries import ANNOTATIONS, CHOICES, PANELS, Asked
from rulebook import rules

from exporters.metrics import CATALOGUE
from exporters.switches.metrics import CATALOGUE as OF_SWITCHES
from fleetctl.rack import load_rack
from fleetctl.rack.placement import Floor
from fleetctl.serve.beside import Beside, GuardSeen
from fleetctl.serve.board import Board
from fleetctl.serve.decide import Decision
from fleetctl.serve.exporter import Seen, families
from fleetctl.serve.service import Turn

if TYPE_CHECKING:
    from conftest import RackUnderTest

PROJECT = Path(__file__).resolve().parents[2]
OF_JOB = {"job", "instance", "rack"}
OF_PHONE = OF_JOB | {"switch", "port", "phone"}
"""Labels that Prometheus adds by the list of targets."""

OF_LEVEL = {
    "rack": {"rack"},
    "switch": {"rack", "switch"},
    "run": {"rack", "run"},
    "phone": OF_PHONE | {"run", "rank"},
} | {name: {name} for name in ("state", "source")}
"""Labels by the words of which a recording rule's level is made, as records.yml.j2 says."""


def fleet_labels() -> dict[str, set[str]]:
    """What the fleet exporter tells of a rack in which nothing goes on."""
    rack = load_rack(PROJECT / "inventory/standin.yml")
    board = Board(Floor((), ()), {}, ())
    turn = Turn(0.0, rack, {}, board, (), Decision((), {}), 0.0)
    seen = Seen(turn, {}, 0, Beside(GuardSeen(0.0, {}, 0)))
    return {family.name: set(family._labelnames) for family in families(seen)}


def level_labels(record: str) -> set[str]:
    return set().union(*(OF_LEVEL[word] for word in record.split(":")[0].split("_")))


LABELS: dict[str, set[str]] = {
    **{metric.name: OF_PHONE | set(metric.labels) for metric in CATALOGUE},
    **{metric.name: OF_JOB | set(metric.labels) for metric in OF_SWITCHES},
    **{name: OF_JOB | labels for name, labels in fleet_labels().items()},
    **{rule["record"]: level_labels(rule["record"]) for rule in rules() if "record" in rule},
    "up": OF_PHONE,
    "ALERTS": OF_PHONE | {"alertname", "alertstate", "severity"},
}
COUNTERS = {metric.name for metric in (*CATALOGUE, *OF_SWITCHES) if metric.kind == "counter"}

NAME = re.compile(r"\b(?:up\b|ALERTS\b|process_\w+|phonerack_\w+|\w+:\w+:\w+)")
SELECTOR = re.compile(rf"({NAME.pattern})\{{([^}}]*)\}}")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
GROUPING = re.compile(r"\b(?:by|on|group_left|group_right) ?\(([^)]*)\)")
MADE = re.compile(r"\"(\w+)\", \"[^\"]*\", \"\w*\", \"[^\"]*\"\)")
"""The label that a label_replace makes."""

each = pytest.mark.parametrize("asked", [*PANELS, *ANNOTATIONS], ids=Asked.name)


def listed(text: str) -> set[str]:
    return {name for name in text.split(", ") if name}


@each
def test_a_query_asks_for_metrics_and_labels_that_somebody_gives(asked: Asked) -> None:
    selectors = SELECTOR.findall(asked.expression)
    assert len(selectors) == len(NAME.findall(asked.expression)), "a metric without its rack"
    assert selectors
    labels = set(MADE.findall(asked.expression))
    for metric, inside in selectors:
        assert metric in LABELS
        matched = set(MATCHER.findall(inside))
        assert matched <= LABELS[metric], f"{metric} has no such labels"
        assert "rack" in matched
        labels |= LABELS[metric]
    for grouping in GROUPING.findall(asked.expression):
        assert listed(grouping) <= labels


@each
def test_a_legend_names_labels_that_the_query_keeps(asked: Asked) -> None:
    """By name here; that they are there is seen on a live rack."""
    made = set(MADE.findall(asked.expression))
    known = set().union(made, *(LABELS[name] for name, _ in SELECTOR.findall(asked.expression)))
    aggregated = re.match(r"(?:sum|avg|min|max|count)\b(?: by \(([^)]*)\))?", asked.expression)
    kept = listed(aggregated[1] or "") if aggregated else known
    assert set(re.findall(r"{{(\w+)}}", asked.legend)) <= kept


@each
def test_counters_and_only_counters_are_rated_over_an_interval_that_fits(asked: Asked) -> None:
    text = asked.expression
    rated = set(re.findall(r"rate\((\w+)\{[^}]*\}\[\$__rate_interval\]\)", text))
    over_minutes = set(re.findall(r"increase\((\w+)\{[^}]*\}\[\d+m\]\)", text))
    changing = set(re.findall(r"changes\((\w+)\{[^}]*\}\[1m\]\)", text))
    assert rated | over_minutes == COUNTERS & set(re.findall(r"\w+", text))
    assert text.count("}[") == len(re.findall(r"}\[(?:\$__rate_interval|\d+m)\]", text))
    assert not changing & COUNTERS


@pytest.mark.parametrize("asked", CHOICES, ids=Asked.name)
def test_a_variable_offers_values_of_a_label_that_there_is(asked: Asked) -> None:
    found = re.fullmatch(r"label_values\((\w+)(?:\{([^}]*)\})?, (\w+)\)", asked.expression)
    assert found
    metric, matched, label = found[1], found[2] or "", found[3]
    assert {*MATCHER.findall(matched), label} <= LABELS[metric]
    assert label in (asked.title, "rack")


def as_rules() -> str:
    """Every query as a recording rule, so that promtool reads it."""
    variables = {"$__rate_interval": "1m", "$rack": "lab"}
    variables |= dict.fromkeys(("$phone", "$run", "$switch"), ".+")
    queries = list(dict.fromkeys(each.filled(variables) for each in (*PANELS, *ANNOTATIONS)))
    found = [{"record": f"query:{number}", "expr": text} for number, text in enumerate(queries)]
    assert len(found) > 100
    assert not [each for each in found if re.search(r"\$[a-z_]", each["expr"])]
    return yaml.safe_dump({"groups": [{"name": "dashboards", "rules": found}]}, width=1000)


@pytest.mark.tools
@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool")
def test_promtool_here_reads_every_query(tmp_path: Path) -> None:
    (tmp_path / "queries.yml").write_text(as_rules())
    done = subprocess.run(
        ["promtool", "check", "rules", "queries.yml"], cwd=tmp_path, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.standin
def test_the_services_hosts_promtool_reads_every_query(provisioned_rack: RackUnderTest) -> None:
    done = subprocess.run(
        [
            *("podman", "exec", "-i", f"pr-{provisioned_rack.folder.name}-services", "sh", "-c"),
            'file=$(mktemp); cat >"$file"; promtool check rules "$file"',
        ],
        input=as_rules(),
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
