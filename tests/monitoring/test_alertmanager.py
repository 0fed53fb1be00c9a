"""What Alertmanager makes of alerts: who is told, and what is held back by something larger."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, override

import pytest
import yaml
from rulebook import rendered, rules, settings
from which_rack import SUBNET

if TYPE_CHECKING:
    from conftest import RackUnderTest

type Labels = dict[str, str]

PROGRAM = "prometheus-alertmanager"
HERE = [
    pytest.mark.tools,
    pytest.mark.skipif(not shutil.which(PROGRAM), reason="needs Alertmanager"),
]


def alert(name: str, severity: str = "warning", **labels: str) -> Labels:
    return {"alertname": name, "severity": severity, **labels}


def phone_down(number: int, severity: str = "warning") -> Labels:
    switch = "sw1" if number < 4 else "sw2"
    return alert("PhoneDown", severity, phone=f"phone{number}", switch=switch, port=str(number))


def unseen(number: int) -> Labels:
    return {**phone_down(number, "critical"), "alertname": "PhoneChargesUnseen"}


SWITCH_DOWN = alert("SwitchDown", "critical", switch="sw1")
FIRING: dict[str, tuple[list[Labels], list[Labels]]] = {
    "a switch speaks for its phones and for no others": (
        [SWITCH_DOWN, phone_down(1), phone_down(2, "critical"), phone_down(4)],
        [SWITCH_DOWN, phone_down(4)],
    ),
    "a switch speaks for itself, too": (
        [SWITCH_DOWN, alert("SwitchNotRead", switch="sw1"), alert("SwitchHot", switch="sw2")],
        [SWITCH_DOWN, alert("SwitchHot", switch="sw2")],
    ),
    "nothing speaks for a battery in danger": (
        [
            SWITCH_DOWN,
            alert("PhoneBatteryDanger", "critical", phone="phone1", switch="sw1"),
            alert("PhoneBatteryHot", "critical", phone="phone1", switch="sw1"),
            alert("PhoneBatteryHot", "critical", phone="phone2", switch="sw1"),
        ],
        [
            SWITCH_DOWN,
            alert("PhoneBatteryDanger", "critical", phone="phone1", switch="sw1"),
            alert("PhoneBatteryHot", "critical", phone="phone2", switch="sw1"),
        ],
    ),
    "nor for one that charges unseen, since a dead switch may be silenced": (
        [SWITCH_DOWN, phone_down(1), unseen(1), unseen(2)],
        [SWITCH_DOWN, unseen(1), unseen(2)],
    ),
    "the rack speaks for switches and phones, not for what charges unseen": (
        [alert("RackDown", "critical"), SWITCH_DOWN, phone_down(1), phone_down(4), unseen(4)],
        [alert("RackDown", "critical"), unseen(4)],
    ),
    "many phones speak for each": (
        [alert("PhonesDown", "critical"), phone_down(1), phone_down(4), alert("TargetsMissing")],
        [alert("PhonesDown", "critical"), alert("TargetsMissing")],
    ),
    "critical speaks for warning, of the same phone": (
        [phone_down(1), phone_down(1, "critical"), phone_down(2)],
        [phone_down(1, "critical"), phone_down(2)],
    ),
    "of two sources of a phone, each is told": (
        [
            alert("PhoneSourceFailing", phone="phone1", source="battery"),
            alert("PhoneSourceFailing", phone="phone1", source="thermal"),
        ],
        [
            alert("PhoneSourceFailing", phone="phone1", source="battery"),
            alert("PhoneSourceFailing", phone="phone1", source="thermal"),
        ],
    ),
    "a straggler that has become slower is told once": (
        [
            alert("TrainingStraggler", phone="phone1", run="digits-1"),
            alert("TrainingSlowed", phone="phone1", run="digits-1"),
        ],
        [alert("TrainingStraggler", phone="phone1", run="digits-1")],
    ),
    "another rack is another matter": (
        [SWITCH_DOWN, {**phone_down(1), "rack": "another"}],
        [SWITCH_DOWN],
    ),
}
"""What fires, and of that what people are told."""


def configuration(**variables: Any) -> str:
    return rendered("alertmanager.yml", settings(**variables))


def test_what_is_tried_here_are_alerts_that_there_are() -> None:
    known = {(r["alert"], r["labels"]["severity"]) for r in rules() if "alert" in r}
    fired = {(a["alertname"], a["severity"]) for firing, _ in FIRING.values() for a in firing}
    assert fired <= known


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310
        return json.load(answer)


def tell(base: str, alerts: list[Labels]) -> None:
    request = urllib.request.Request(  # noqa: S310
        f"{base}/api/v2/alerts",
        json.dumps([{"labels": labels} for labels in alerts]).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310


def told(base: str, rack: str) -> list[Labels]:
    query = urllib.parse.urlencode({"inhibited": "false", "filter": f'rack="{rack}"'})
    found: list[Labels] = [one["labels"] for one in get(f"{base}/api/v2/alerts?{query}")]
    return found


def eventually(look: Callable[[], bool], what: str) -> None:
    for _ in range(120):
        if look():
            return
        time.sleep(0.25)
    pytest.fail(f"never: {what}")


def holds_back_what_it_should(base: str) -> None:
    """Each case in a rack of its own, so that they do not speak for each other."""
    for number, (firing, _) in enumerate(FIRING.values()):
        tell(base, [{"rack": f"try{number}", **labels} for labels in firing])
    for number, (name, (_, expected)) in enumerate(FIRING.items()):
        rack = f"try{number}"
        wanted = sorted(({"rack": rack, **labels} for labels in expected), key=str)

        def look(rack: str = rack, wanted: list[Labels] = wanted) -> bool:
            return sorted(
                ({"rack": rack, **labels} for labels in told(base, rack)), key=_ordered
            ) == sorted(wanted, key=_ordered)

        eventually(look, name)


def _ordered(labels: Labels) -> str:
    return str(sorted(labels.items()))


@contextmanager
def alertmanager(folder: Path, text: str) -> Iterator[str]:
    """Alertmanager with this configuration on loopback; where it answers."""
    (folder / "alertmanager.yml").write_text(text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                PROGRAM,
                f"--config.file={folder / 'alertmanager.yml'}",
                f"--storage.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--cluster.listen-address=",
            ],
            stderr=log,
        )
    base = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: _answers(base), "Alertmanager answers")
        yield base
    finally:
        process.terminate()
        process.wait()


def _answers(base: str) -> bool:
    try:
        urllib.request.urlopen(f"{base}/-/ready", timeout=5).close()  # noqa: S310
    except urllib.error.URLError:
        return False
    return True


class TestHere:
    """With the Alertmanager of this machine, where there is one."""

    pytestmark = HERE

    def test_the_larger_holds_back_the_smaller(self, tmp_path: Path) -> None:
        with alertmanager(tmp_path, configuration()) as base:
            holds_back_what_it_should(base)

    def test_a_webhook_gets_the_watchdog_at_once(self, tmp_path: Path) -> None:
        bodies: list[Any] = []

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                bodies.append(json.loads(self.rfile.read(length)))
                self.send_response(200)
                self.end_headers()

            @override
            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        try:
            with alertmanager(tmp_path, configuration(monitoring_webhook_url=url)) as base:
                tell(base, [alert("Watchdog", "none")])
                eventually(lambda: bool(bodies), "the webhook is called")
        finally:
            server.shutdown()
            server.server_close()
        assert bodies[0]["commonLabels"]["alertname"] == "Watchdog"


SAFETY = re.compile("PhoneBattery.*|PhoneChargesUnseen|Guard.*")
"""What tells that a battery is in danger, or that nobody sees it."""


def matches(matchers: list[str], labels: Labels) -> bool:
    """As Alertmanager has it: a label that is not there is empty."""
    for matcher in matchers:
        (found,) = re.findall(r'^(\w+)(=~|!~|!=|=)"([^"]*)"$', matcher)
        name, operator, value = found
        is_so = (
            re.fullmatch(value, labels.get(name, "")) is not None
            if "~" in operator
            else value == labels.get(name, "")
        )
        if is_so == operator.startswith("!"):
            return False
    return True


@pytest.mark.parametrize(
    "name", sorted({r["alert"] for r in rules() if SAFETY.fullmatch(r.get("alert", ""))})
)
def test_a_battery_in_danger_is_held_back_by_what_is_worse_of_the_same_phone_alone(
    name: str,
) -> None:
    place = {"switch": "sw1", "port": "1", "phone": "phone001"} if name.startswith("Phone") else {}
    fires = {**alert(name, "critical", rack="lab"), **place}
    held = [
        each["source_matchers"]
        for each in yaml.safe_load(configuration())["inhibit_rules"]
        if matches(each["target_matchers"], fires)
    ]
    assert held == ([['alertname="PhoneBatteryDanger"']] if name == "PhoneBatteryHot" else [])


def test_without_a_webhook_no_alert_leaves_the_rack() -> None:
    assert "webhook" not in configuration()
    assert '"https://example.org/x?a=\\"b"' in configuration(
        monitoring_webhook_url='https://example.org/x?a="b'
    )


@pytest.mark.standin
def test_the_racks_alertmanager_holds_back_the_smaller(provisioned_rack: RackUnderTest) -> None:
    holds_back_what_it_should(f"http://{SUBNET}.2:9093")


@pytest.mark.standin
def test_prometheus_has_found_the_racks_alertmanager(provisioned_rack: RackUnderTest) -> None:
    found = get(f"http://{SUBNET}.2:9090/api/v1/alertmanagers")["data"]["activeAlertmanagers"]
    assert [one["url"] for one in found] == [f"http://{SUBNET}.2:9093/api/v2/alerts"]
    eventually(
        lambda: any(one["labels"]["alertname"] == "Watchdog" for one in _all(SUBNET)),
        "the watchdog arrives",
    )


def _all(subnet: str) -> list[Any]:
    alerts: list[Any] = get(f"http://{subnet}.2:9093/api/v2/alerts")
    return alerts
