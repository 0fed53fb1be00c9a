"""The rules and what Prometheus scrapes, rendered as the role does it; promtool is the judge."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from rulebook import (
    PROJECT,
    SWITCHES,
    promtool,
    promtool_of,
    rendered,
    rule_files,
    rules,
    settings,
)
from test_records import record_tests

from exporters.metrics import CATALOGUE
from exporters.switches.metrics import CATALOGUE as OF_SWITCHES
from fleetctl.rack import load_rack
from fleetctl.serve.board import Board
from fleetctl.serve.decide import Decision
from fleetctl.serve.exporter import Seen, families
from fleetctl.serve.placement import Floor
from fleetctl.serve.service import Turn

if TYPE_CHECKING:
    from conftest import RackUnderTest


def of_the_fleet() -> set[str]:
    """What the fleet exporter tells of a rack in which nothing goes on."""
    rack = load_rack(PROJECT / "inventory/standin.yml")
    board = Board(Floor((), ()), {}, ())
    turn = Turn(0.0, rack, {}, board, (), Decision((), {}), 0.0)
    return {family.name for family in families(Seen(turn, {}, 0))}


METRICS = {metric.name for metric in (*CATALOGUE, *OF_SWITCHES)} | of_the_fleet() | {"up"}
OF_EVERY_RACK = ["PhoneClockOff", "FleetServiceDown", "TargetsMissing"]


def alerts(switches: tuple[str, ...] = SWITCHES) -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules(switches) if "alert" in rule}


ALERTS = alerts()


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    pages = re.findall(r"^## (\w+)$", (PROJECT / "docs/runbooks.md").read_text(), re.MULTILINE)
    assert sorted(pages) == sorted(ALERTS)


@pytest.mark.parametrize("name", list(ALERTS))
def test_an_alert_says_what_how_bad_and_what_to_do(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert set(rule["annotations"]) == {"summary", "cure", "runbook"}
    assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{name.lower()}"


@pytest.mark.parametrize("name", list(ALERTS))
def test_an_alert_asks_for_what_the_exporters_give(name: str) -> None:
    expression = ALERTS[name]["expr"]
    asked = set(re.findall(r"\b(?:phonerack_\w+|up\b)", expression))
    assert asked
    assert asked <= METRICS


def test_a_rack_without_watched_switches_has_neither_rules_nor_a_job_for_them() -> None:
    assert list(alerts(())) == OF_EVERY_RACK
    assert scraped(()) == ["phone", "fleet", "prometheus"]
    assert scraped(SWITCHES) == ["phone", "fleet", "switches", "prometheus"]


def scraped(switches: tuple[str, ...]) -> list[str]:
    configuration = yaml.safe_load(rendered("prometheus.yml", settings(switches)))
    return [job["job_name"] for job in configuration["scrape_configs"]]


PORT = 'switch="sw1", port="1", phone="phone001"'
SERIES = {
    'up{job="fleet", rack="lab"}': "1x20",
    'up{job="phone", rack="lab", phone="phone001"}': "1x20",
    'phonerack_fleet_targets_expected{rack="lab"}': "1x20",
    'up{job="switches"}': "1x20",
    'phonerack_switch_up{switch="sw1"}': "1x20",
    'phonerack_switch_up{switch="sw2"}': "1x20",
    'phonerack_switch_uptime_seconds{switch="sw1"}': "1000+60x20",
    'phonerack_switch_temperature_celsius{switch="sw1", sensor="inlet"}': "41x20",
    'phonerack_switch_poe_power_watts{switch="sw1"}': "300x20",
    'phonerack_switch_poe_limit_watts{switch="sw1"}': "740x20",
    f'phonerack_switch_drift{{{PORT}, setting="vlan"}}': "0x20",
    f"phonerack_switch_port_speed_bytes{{{PORT}}}": "125000000x20",
    f"phonerack_switch_port_full_duplex{{{PORT}}}": "1x20",
    f"phonerack_switch_port_flaps_total{{{PORT}}}": "5x20",
    f"phonerack_switch_port_receive_errors_total{{{PORT}}}": "100+1x20",
}
"""A rack where nothing is wrong: series and what they hold, minute by minute."""

WRONG = {
    "FleetServiceDown": ('up{job="fleet", rack="lab"}', "1x5 0x15"),
    "TargetsMissing": ('phonerack_fleet_targets_expected{rack="lab"}', "2x20"),
    "SwitchExporterDown": ('up{job="switches"}', "0x20"),
    "SwitchNotRead": ('phonerack_switch_up{switch="sw1"}', "0x20"),
    "SwitchMissing": ('phonerack_switch_up{switch="sw2"}', "1 _x20"),
    "SwitchRestarted": ('phonerack_switch_uptime_seconds{switch="sw1"}', "1000+60x10 5+60x9"),
    "SwitchHot": ('phonerack_switch_temperature_celsius{switch="sw1", sensor="inlet"}', "75x20"),
    "SwitchPowerShort": ('phonerack_switch_poe_power_watts{switch="sw1"}', "700x20"),
    "SwitchDrift": (f'phonerack_switch_drift{{{PORT}, setting="vlan"}}', "1x20"),
    "PhoneLinkSlow": (f"phonerack_switch_port_speed_bytes{{{PORT}}}", "12500000x20"),
    "PhoneLinkHalfDuplex": (f"phonerack_switch_port_full_duplex{{{PORT}}}", "0x20"),
    "PhoneLinkFlaps": (f"phonerack_switch_port_flaps_total{{{PORT}}}", "5x10 9x9"),
    "PhoneLinkErrors": (f"phonerack_switch_port_receive_errors_total{{{PORT}}}", "100+5x20"),
}
"""What goes wrong for each alert."""


def rule_tests() -> dict[str, Any]:
    """promtool's test file: each alert fires for its own trouble and nothing fires without one."""
    cases: list[tuple[str, dict[str, str]]] = [("", SERIES)]
    cases += [(name, SERIES | {series: values}) for name, (series, values) in WRONG.items()]
    tests = [
        {
            "interval": "1m",
            "input_series": [
                {"series": series, "values": values} for series, values in held.items()
            ],
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": "15m",
                    "exp_samples": [
                        {"labels": f'{{alertname="{one}"}}', "value": 1} for one in [name] if one
                    ],
                }
            ],
        }
        for name, held in cases
    ]
    return {"rule_files": list(rule_files()), "tests": tests}


def test_every_alert_but_that_of_clocks_is_tried_here() -> None:
    assert set(WRONG) == set(ALERTS) - {"PhoneClockOff"}


@pytest.mark.tools
@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool")
def test_promtool_here_finds_each_alert_for_its_trouble(tmp_path: Path) -> None:
    assert promtool(tmp_path, rule_tests()) == ""


@pytest.mark.standin
def test_the_services_hosts_promtool_is_content_with_all_rules(
    provisioned_rack: RackUnderTest,
) -> None:
    """Each alert for its trouble, each record as it should be."""
    host = f"pr-{provisioned_rack.folder.name}-services"
    assert promtool_of(host, rule_tests(), record_tests()) == ""
