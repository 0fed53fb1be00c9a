"""The rules and what Prometheus scrapes, rendered as the role does it; promtool is the judge."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from all_troubles import LASTING, TROUBLES
from jinja2 import Environment, UndefinedError
from rulebook import (
    PROJECT,
    SWITCHES,
    promtool,
    promtool_of,
    rendered,
    rules,
    settings,
)
from test_records import RECORDS, record_tests
from troubles import NEARLY, SHORTER, Trouble, as_scraped

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

type Rule = dict[str, Any]

INTERVALS = (5, 30)
"""The shortest and the longest pause between scrapes, in seconds."""

RUNBOOKS = PROJECT / "docs/runbooks"


def of_the_fleet() -> set[str]:
    """What the fleet exporter tells of a rack in which nothing goes on."""
    rack = load_rack(PROJECT / "inventory/standin.yml")
    board = Board(Floor((), ()), {}, ())
    turn = Turn(0.0, rack, {}, board, (), Decision((), {}), 0.0)
    seen = Seen(turn, {}, 0, Beside(GuardSeen(0.0, {"hot": 1}, 0)))
    return {family.name for family in families(seen)}


METRICS = {metric.name for metric in (*CATALOGUE, *OF_SWITCHES)} | of_the_fleet() | {"up"}
"""Those of Prometheus, Alertmanager and the services host are Debian's."""


def alerts(switches: tuple[str, ...] = SWITCHES) -> list[Rule]:
    return [rule for rule in rules(switches) if "alert" in rule]


ALERTS = alerts()
NAMES = list(dict.fromkeys(rule["alert"] for rule in ALERTS))


def test_every_alert_has_a_section_of_its_own_and_no_section_lacks_its_alert() -> None:
    sections = {
        file.name: re.findall(r"^## (\w+)$", file.read_text(), re.MULTILINE)
        for file in RUNBOOKS.glob("*.md")
    }
    assert sorted(name for names in sections.values() for name in names) == sorted(NAMES)
    for rule in ALERTS:
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert anchor == rule["alert"].lower()
        assert rule["alert"] in sections[Path(page).name], rule["alert"]
        assert Path(page).parent == Path("docs/runbooks")


@pytest.mark.parametrize("name", NAMES)
def test_a_section_tells_what_it_means_where_to_look_what_to_do_and_when_to_stop(
    name: str,
) -> None:
    text = "\n".join(file.read_text() for file in sorted(RUNBOOKS.glob("*.md")))
    (section,) = re.findall(rf"^## {name}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    for part in ("**Look:**", "**Do:**", "**Stop"):
        assert part in section, part
    assert not section.lstrip().startswith("**"), "it begins with what the alert means"


def test_whatever_guard_calls_for_has_a_section() -> None:
    sources = "".join(file.read_text() for file in (PROJECT / "fleetctl/guard").glob("*.py"))
    calls = set(re.findall(r'turn\.call\(\s*"([a-z-]+)"', sources))
    calls |= set(re.findall(r'what = "([a-z-]+)"', sources))
    calls |= set(re.findall(r'what = "[a-z-]+" if .* else "([a-z-]+)"', sources))
    sections = re.findall(r"^### ([a-z-]+)$", (RUNBOOKS / "guard.md").read_text(), re.MULTILINE)
    assert sorted(sections) == sorted(calls)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda r: f"{r['alert']}-{r['labels']['severity']}")
def test_an_alert_says_what_how_bad_and_what_to_do(rule: Rule) -> None:
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in ("none", "warning", "critical")
    assert set(rule["annotations"]) == {"summary", "cure", "runbook"}
    assert rule["annotations"]["summary"][-1] != "."


@pytest.mark.parametrize("rule", rules(), ids=lambda r: r.get("alert") or r["record"])
def test_a_rule_asks_for_what_exporters_or_records_give(rule: Rule) -> None:
    asked = set(re.findall(r"\b(?:phonerack_\w+|up(?=\{)|[a-z_]+:[a-z_]+:[a-z0-9]+)", rule["expr"]))
    assert asked <= METRICS | RECORDS.keys()
    assert (
        asked
        or rule["expr"] == "vector(1)"
        or re.search(r"\b(prometheus|alertmanager|node)_", rule["expr"])
    )


def test_a_pair_asks_the_same_thing_with_two_limits() -> None:
    by_name: dict[str, list[Rule]] = {}
    for rule in ALERTS:
        by_name.setdefault(rule["alert"], []).append(rule)
    for name, group in by_name.items():
        assert len(group) in (1, 2), name
        if len(group) == 2:
            assert [rule["labels"]["severity"] for rule in group] == ["warning", "critical"]
            shape = {re.sub(r"\d[\d.e+]*", "0", rule["expr"]) for rule in group}
            assert len(shape) == 1, name
            told = [(rule["expr"], rule["for"]) for rule in group]
            assert told[0] != told[1], name


def test_a_rack_without_watched_switches_has_neither_rules_nor_a_job_for_them() -> None:
    assert not [rule for rule in alerts(()) if "switches.md" in rule["annotations"]["runbook"]]
    jobs = {switches: scraped(switches) for switches in ((), SWITCHES)}
    assert [job for job in jobs[SWITCHES] if job not in jobs[()]] == ["switches"]
    assert {"phone", "fleet", "prometheus"} <= set(jobs[()])


@pytest.mark.parametrize("seconds", INTERVALS)
def test_a_window_holds_some_samples_at_any_interval_that_the_role_allows(seconds: int) -> None:
    text = rendered("rules.yml", settings(monitoring_scrape_seconds=seconds))
    unit_seconds = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    windows = re.findall(r"\[(\d+)([smhd])[]:]", text)
    assert len(windows) > 20
    for count, unit in windows:
        assert int(count) * unit_seconds[unit] >= 4 * seconds, f"{count}{unit}"


def test_the_role_refuses_intervals_that_do_not_fit_its_windows() -> None:
    tasks = yaml.safe_load((PROJECT / "roles/monitoring/tasks/main.yml").read_text())
    (check,) = (task for task in tasks if "interval" in task["name"])
    (that,) = check["ansible.builtin.assert"]["that"]
    allows = Environment(autoescape=True).compile_expression(that)
    least, most = INTERVALS
    asked = (0, 1, least - 1, least, str(most), most, most + 1, 60, "60")
    assert [bool(allows(monitoring_scrape_seconds=each)) for each in asked] == [
        *(False, False, False),
        *(True, True, True),
        *(False, False, False),
    ]


def test_where_no_guard_is_to_run_nobody_is_called_for_its_absence() -> None:
    text = rendered("rules.yml", settings(SWITCHES, **SHORTER, monitoring_guard=False))
    unguarded = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    assert "GuardUnseen" not in {rule.get("alert") for rule in unguarded}
    (served,) = (rule for rule in unguarded if rule.get("alert") == "FleetServiceDown")
    assert "max_over_time" in served["expr"], "only where somebody served within the day"
    assert {"alert": "GuardDown"}.items() <= next(
        rule for rule in unguarded if rule.get("alert") == "GuardDown"
    ).items(), "one that ran, and does not any more, is told"


def scraped(switches: tuple[str, ...]) -> list[str]:
    configuration = yaml.safe_load(rendered("prometheus.yml", settings(switches)))
    return [job["job_name"] for job in configuration["scrape_configs"]]


def roster(**addresses: str) -> list[Any]:
    """The list of targets of phones with these addresses."""
    hosts = {
        name: {"phone_address": address, "phone_switch": "sw1", "phone_port": 1}
        for name, address in addresses.items()
    }
    given = settings(hostvars=hosts, groups={"phones": list(hosts)})
    found: list[Any] = json.loads(rendered("phones.json", given))
    return found


def test_an_address_that_two_phones_have_is_refused_where_the_list_is_written() -> None:
    targets = roster(phone001="10.0.0.11", phone002="10.0.0.12")
    assert [one["targets"] for one in targets] == [["10.0.0.11:9865"], ["10.0.0.12:9865"]]
    with pytest.raises(
        UndefinedError, match=r"phone002 and phone001 have one address, 10\.0\.0\.11"
    ):
        roster(phone001="10.0.0.11", phone002="10.0.0.11")


def rule_tests() -> dict[str, Any]:
    """promtool's test file: for each trouble exactly what it is, and nothing without one.

    Each is in a rack of its own, since promtool takes as long for one rack as for many; those that
    take long are apart.
    """
    bounds = pairwise((0, *BUCKETS_MINUTES))
    buckets = [
        {name: each for name, each in TROUBLES.items() if low < each.minutes <= high}
        for low, high in bounds
    ]
    tests = [*(_together(each) for each in buckets), _summaries(), _nothing_written(), _days()]
    return {"tests": tests}


def pairs_of(alert: str) -> set[tuple[str, str]]:
    return {(alert, severity) for severity in ("warning", "critical")}


def _days() -> dict[str, Any]:
    """What is not mended is told on the second day, too."""
    series: dict[str, str] = {}
    asked = []
    for number, (lasting, fires) in enumerate(LASTING):
        rack = f'rack="lab{number}"'
        for name, values in lasting.items():
            series[as_scraped(name).replace('rack="lab"', rack)] = values
        for alert in {name for name, _ in fires}:
            told = _asked(25 * 60, f', {rack}, alertname="{alert}"', fires & pairs_of(alert))
            asked.append(told)
    given = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "5m", "input_series": given, "promql_expr_test": asked}


def _nothing_written() -> dict[str, Any]:
    """Samples of the rack itself end, as they do with a full disk."""
    told = ', alertname="PrometheusNotWriting", rack="lab"'
    return {
        "interval": "1m",
        "input_series": [{"series": 'up{job="prometheus", rack="lab"}', "values": "1x5 stale"}],
        "promql_expr_test": [
            _asked(5, told, ()),
            _asked(10, told, {("PrometheusNotWriting", "critical")}),
        ],
    }


def _summaries() -> dict[str, Any]:
    """What people read of two clocks that are wrong."""
    clocks = {"ahead": "90+60x5", "in 1970": "-1764450000+60x5"}
    told = {"ahead": "1m 30s", "in 1970": "20421d 21h 0m 0s"}
    rule = next(rule for rule in ALERTS if rule["alert"] == "PhoneClockOff")
    expected = [
        {
            "exp_labels": {"phone": phone, "severity": severity},
            "exp_annotations": rule["annotations"]
            | {"summary": f"The clock of {phone} is {told[phone]} off"},
        }
        for phone, severity in (
            ("ahead", "warning"),
            ("in 1970", "warning"),
            ("in 1970", "critical"),
        )
    ]
    return {
        "interval": "1m",
        "input_series": [
            {"series": f'phonerack_clock_timestamp_seconds{{phone="{phone}"}}', "values": values}
            for phone, values in clocks.items()
        ],
        "alert_rule_test": [
            {"alertname": "PhoneClockOff", "eval_time": "0m"},
            {"alertname": "PhoneClockOff", "eval_time": "3m", "exp_alerts": expected},
        ],
    }


BUCKETS_MINUTES = (15, 45, 75, 150)


def _together(troubles: Mapping[str, Trouble]) -> dict[str, Any]:
    series, asked = [], []
    for number, trouble in enumerate(troubles.values()):
        rack = f'rack="lab{number}"'
        for name, values in {**NEARLY, **trouble.series}.items():
            assert 'rack="lab"' in name
            scraped_so = as_scraped(name).replace('rack="lab"', rack)
            series.append({"series": scraped_so, "values": values})
        asked.append(_asked(trouble.minutes, f", {rack}", trouble.fires))
    watchdog = _asked(1, ', alertname="Watchdog"', {("Watchdog", "none")})
    return {"interval": "1m", "input_series": series, "promql_expr_test": [watchdog, *asked]}


def _asked(minutes: int, chosen: str, fires: Iterable[tuple[str, str]]) -> dict[str, Any]:
    return {
        "expr": f'group by (alertname, severity) (ALERTS{{alertstate="firing"{chosen}}})',
        "eval_time": f"{minutes}m",
        "exp_samples": [
            {"labels": f'{{alertname="{alert}", severity="{severity}"}}', "value": 1}
            for alert, severity in sorted(fires)
        ],
    }


def test_every_alert_of_every_severity_fires_in_one_test_and_is_quiet_in_another() -> None:
    known = {(rule["alert"], rule["labels"]["severity"]) for rule in ALERTS}
    fires = Counter(pair for trouble in TROUBLES.values() for pair in trouble.fires)
    assert fires.keys() == known - {("Watchdog", "none")}
    assert max(fires.values()) < len(TROUBLES)
    for name, trouble in TROUBLES.items():
        assert {**NEARLY, **trouble.series} != NEARLY or not trouble.fires, name


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
