"""Prometheus on the services host of a stand-in rack: targets, pages, and every panel's query."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from which_rack import NAME, SUBNET

if TYPE_CHECKING:
    from conftest import RackUnderTest

pytestmark = pytest.mark.standin

PROJECT = Path(__file__).resolve().parents[2]
SERVICES, PHONE = f"{SUBNET}.2", f"{SUBNET}.11"
DASHBOARD = json.loads((PROJECT / "exporters/dashboards/rack.json").read_text(encoding="utf-8"))
VARIABLES = {"$__rate_interval": "20s", "$rack": NAME, "$phone": ".+"}
SOURCES = {"phonerack_thermal_": "thermal", "phonerack_cpu_frequency_": "frequency"}
"""Sources that a vendor may deny, and so a stand-in, by what their metrics begin with."""


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310
        text: str = answer.read().decode()
        return text


def query(expression: str) -> list[tuple[dict[str, str], float]]:
    """What Prometheus answers now: labels and value of each series."""
    parameters = urllib.parse.urlencode({"query": expression})
    answer = json.loads(get(f"http://{SERVICES}:9090/api/v1/query?{parameters}"))
    return [(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]


def eventually(look: Callable[[], bool], what: str) -> None:
    for _ in range(240):
        if look():
            return
        time.sleep(0.5)
    pytest.fail(f"never: {what}")


def up() -> dict[str, float]:
    return {labels["phone"]: value for labels, value in query('up{job="phone"}')}


def test_every_phone_of_the_rack_file_is_scraped(provisioned_rack: RackUnderTest) -> None:
    phones = [f"phone{n:03}" for n in range(1, 7)]
    eventually(lambda: up() == dict.fromkeys(phones, 1.0), "all phones are up")


def test_a_target_says_where_the_phone_stands(provisioned_rack: RackUnderTest) -> None:
    labels = next(labels for labels, _ in query('up{phone="phone005"}'))
    assert (labels["rack"], labels["switch"], labels["port"]) == (
        provisioned_rack.folder.name,
        "sw2",
        "2",
    )


def in_services(rack: RackUnderTest, *command: str, text: str = "") -> tuple[int, str]:
    """Exit code and output of a command on the services host that is given `text`."""
    done = subprocess.run(
        ["podman", "exec", "-i", f"pr-{rack.folder.name}-services", *command],
        input=text,
        text=True,
        capture_output=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_prometheus_listens_on_the_rack_only(provisioned_rack: RackUnderTest) -> None:
    connect = "import socket, sys; sys.exit(socket.socket().connect_ex((sys.argv[1], 9090)))"
    assert in_services(provisioned_rack, "python3", "-c", connect, SERVICES)[0] == 0
    assert in_services(provisioned_rack, "python3", "-c", connect, "127.0.0.1")[0] != 0


def test_promtool_finds_nothing_to_say_about_a_phones_page(
    provisioned_rack: RackUnderTest,
) -> None:
    page = get(f"http://{PHONE}:9865/metrics")
    assert in_services(provisioned_rack, "promtool", "check", "metrics", text=page) == (0, "")


def test_the_page_of_serve_is_scraped_and_promtool_has_nothing_to_say(
    provisioned_rack: RackUnderTest,
) -> None:
    serve = subprocess.Popen(
        ["fleetctl", "serve"], env=provisioned_rack.env, stderr=subprocess.DEVNULL
    )
    try:
        eventually(lambda: [v for _, v in query('up{job="fleet"}')] == [1.0], "serve is scraped")
        (labels, expected), *others = query("phonerack_fleet_targets_expected")
        assert (labels["rack"], expected, others) == (NAME, 6.0, [])
        page = get(f"http://{SUBNET}.1:9867/metrics")
        assert in_services(provisioned_rack, "promtool", "check", "metrics", text=page) == (0, "")
        with pytest.raises(urllib.error.URLError):
            get("http://127.0.0.1:9867/metrics")
    finally:
        serve.terminate()
        serve.wait()


CLOCKS = """
rule_files: [/etc/prometheus/phonerack/rules/alerts.yml]
evaluation_interval: 15s
tests:
  - interval: 15s
    input_series:
      - {series: 'phonerack_clock_timestamp_seconds{phone="ahead"}', values: '90+15x40'}
      - {series: 'phonerack_clock_timestamp_seconds{phone="in 1970"}', values: '-1764450000+15x40'}
      - {series: 'phonerack_clock_timestamp_seconds{phone="right"}', values: '5+15x40'}
    alert_rule_test:
      - {alertname: PhoneClockOff, eval_time: 45s}
      - alertname: PhoneClockOff
        eval_time: 3m
        exp_alerts:
          - exp_labels: {phone: ahead, severity: warning}
            exp_annotations:
              summary: The clock of ahead is 1m 30s off
              cure: &cure CURE
              runbook: &runbook docs/runbooks.md#phoneclockoff
          - exp_labels: {phone: in 1970, severity: warning}
            exp_annotations:
              summary: The clock of in 1970 is 20421d 21h 0m 0s off
              cure: *cure
              runbook: *runbook
"""


def test_a_clock_that_is_wrong_for_a_minute_is_an_alert(provisioned_rack: RackUnderTest) -> None:
    rules = in_services(provisioned_rack, "cat", "/etc/prometheus/phonerack/rules/alerts.yml")[1]
    cure = yaml.safe_load(rules)["groups"][0]["rules"][0]["annotations"]["cure"]
    tests = CLOCKS.replace("CURE", json.dumps(cure))
    assert in_services(provisioned_rack, "sh", "-c", "cat >/root/clocks.yml", text=tests)[0] == 0
    code, said = in_services(provisioned_rack, "promtool", "test", "rules", "/root/clocks.yml")
    assert code == 0, said


def test_a_phones_page_is_small(provisioned_rack: RackUnderTest) -> None:
    lines = get(f"http://{PHONE}:9865/metrics").splitlines()
    assert 50 < len([line for line in lines if not line.startswith("#")]) < 150


def test_what_a_phone_cannot_tell_is_absent_and_named(provisioned_rack: RackUnderTest) -> None:
    failing = {labels["source"] for labels, _ in query("phonerack_collector_success == 0")}
    shown = {labels["__name__"] for labels, _ in query('{job="phone"}')}
    for stem, source in SOURCES.items():
        assert (source in failing) != any(name.startswith(stem) for name in shown)


def heat(phone: str) -> dict[str, float]:
    """Temperatures of a phone by sensor."""
    found = query(f'phonerack_thermal_zone_celsius{{phone="{phone}"}}')
    return {labels["zone"]: value for labels, value in found}


@pytest.mark.soak
def test_heat_is_androids_where_the_kernels_is_denied(provisioned_rack: RackUnderTest) -> None:
    """Its live section, without the sensor that is off; and nothing while its HAL is not ready."""
    eventually(lambda: heat("phone002").keys() == {"AP", "BAT", "SKIN"}, "what its sensors say")
    said = provisioned_rack.podman("phone002", "cat", "/standin/hw/dumpsys_thermalservice.txt")
    assert "mName=USB" in said.stdout
    assert "Cached temperatures" in said.stdout
    assert all(20 < value < 100 and value != 25 for value in heat("phone002").values())
    provisioned_rack.fleetctl("standin", "hardware", "phone002", "thermal-hal=missing")
    try:
        eventually(lambda: not heat("phone002"), "it is absent, not 0")
        good = query('phonerack_collector_success{phone="phone002", source="thermal"}')
        assert [value for _, value in good] == [0]
    finally:
        provisioned_rack.fleetctl("standin", "hardware", "phone002", "thermal-hal=ready")
    eventually(lambda: len(heat("phone002")) == 3, "its sensors are back")


def test_a_phone_that_dies_is_down_alone_and_comes_back(provisioned_rack: RackUnderTest) -> None:
    provisioned_rack.fleetctl("standin", "fault", "phone006", "kill")
    try:
        eventually(lambda: up()["phone006"] == 0, "the dead phone is down")
        assert [phone for phone, value in up().items() if value == 0] == ["phone006"]
    finally:
        provisioned_rack.fleetctl("standin", "heal", "phone006")
    eventually(lambda: up()["phone006"] == 1, "the phone is back, its service with it")


@pytest.fixture
def training(provisioned_rack: RackUnderTest, tmp_path: Path) -> Iterator[None]:
    """A run under way on all phones."""
    provisioned_rack.fleetctl("data", "add", "digits")
    with (tmp_path / "launch.log").open("w") as log:
        launch = subprocess.Popen(
            ["fleetctl", "launch", "examples/jobs/digits.yml"],
            cwd=PROJECT,
            env=provisioned_rack.env,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        launch.send_signal(signal.SIGINT)  # stops the run on the phones, too
        launch.wait(120)


def test_every_panel_shows_something_in_its_range_while_phones_train(training: None) -> None:
    missing = {
        (panel["title"], target["expr"]): panel["fieldConfig"]["defaults"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    }

    def look() -> bool:
        for key, limits in list(missing.items()):
            values = [value for _, value in query(_filled(key[1]))]
            assert all(_in_range(value, limits) for value in values), key
            if values:
                del missing[key]
        return all(_denied(expression) for _, expression in missing)

    eventually(look, f"values for {sorted(missing)}")


def _filled(expression: str) -> str:
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


def _in_range(value: float, limits: dict[str, Any]) -> bool:
    return limits.get("min", -math.inf) <= value <= limits.get("max", math.inf)


def _denied(expression: str) -> bool:
    """Whether every phone says that it cannot read what the query asks for."""
    sources = {source for stem, source in SOURCES.items() if stem in expression}
    working = {labels["source"] for labels, _ in query("phonerack_collector_success == 1")}
    return bool(sources) and not sources & working
