"""The check `link`: what the switch exporter has recorded, asked of a Prometheus by its API."""

from __future__ import annotations

import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import IPv4Network
from typing import Any

import pytest

from fleetctl.checks import links, network
from fleetctl.checks.answer import PhoneFacts
from fleetctl.checks.links import LinkCounters, recent
from fleetctl.rack import Network, Phone, Rack, Switch

ADDRESS = "127.88.0.1"
RACK = Rack(
    "lab",
    Network(
        IPv4Network("127.0.0.0/8"), "ethernet", controller=ADDRESS, snmp_community="snmp_community"
    ),
    {"phone001": Phone("phone001", "127.88.0.11", switch="sw1", port=1)},
    {"sw1": Switch("sw1", "cisco_ios", "127.88.0.3")},
)


class _Api(BaseHTTPRequestHandler):
    """Answers as Prometheus's API does, with a value for each field that is asked for."""

    values: dict[str, float]
    asked: list[str]

    def do_GET(self) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["query"][0]
        self.asked.append(query)
        fields = re.findall(r'"field", "(\w+)"', query)
        rows = [
            {"metric": {"phone": "phone001", "field": field}, "value": [0, str(value)]}
            for field, value in self.values.items()
            if field in fields
        ]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"status": "success", "data": {"result": rows}}).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def prometheus(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Api]]:
    class Api(_Api):
        values: dict[str, float] = {}  # noqa: RUF012
        asked: list[str] = []  # noqa: RUF012

    server = HTTPServer((ADDRESS, 0), Api)
    monkeypatch.setattr(links, "_PORT", server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Api
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_the_switch_has_counted_is_found_by_phone(prometheus: type[_Api]) -> None:
    prometheus.values.update({"flaps": 45.0, "speed_bytes": 12.5e6, "full_duplex": 1.0})
    found = recent(RACK, "15m")
    assert found == {"phone001": LinkCounters(flaps=45.0, speed_bytes=12.5e6, full_duplex=1.0)}
    (query,) = prometheus.asked
    assert query.count('rack="lab"') == 6
    assert query.count("[15m]") == 4


def test_nothing_recorded_is_unknown_and_not_clean(prometheus: type[_Api]) -> None:
    assert recent(RACK) is None


def test_nobody_is_asked_where_no_switch_is_watched(prometheus: type[_Api]) -> None:
    assert recent(replace(RACK, switches={"sw1": Switch("sw1")})) is None
    assert prometheus.asked == []


def test_no_proxy_is_asked(prometheus: type[_Api], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.88.0.1:1")
    prometheus.values["flaps"] = 2.0
    assert recent(RACK) == {"phone001": LinkCounters(flaps=2.0)}


def test_no_prometheus_is_unknown_too() -> None:
    assert recent(RACK, limit_seconds=1.0) is None


def test_of_a_switch_that_is_not_watched_nothing_is_expected() -> None:
    alone = replace(RACK, switches={"sw1": Switch("sw1")})
    found = network.link(PhoneFacts("phone001", "127.88.0.11"), alone)
    assert (found.status, found.message) == (
        "OK",
        "no switch is watched that could tell of its link",
    )


@pytest.mark.parametrize(
    ("link", "status", "told"),
    [
        (None, "UNKNOWN", "nothing is recorded of its link"),
        (LinkCounters(), "UNKNOWN", "does not tell how fast"),
        (LinkCounters(speed_bytes=125e6, full_duplex=1), "OK", "up and clean"),
        (LinkCounters(flaps=1), "WARN", "came and went 1 times"),
        (LinkCounters(flaps=45), "CRITICAL", "came and went 45 times"),
        (LinkCounters(speed_bytes=12.5e6), "WARN", "100 Mb/s link"),
        (LinkCounters(receive_errors=12), "WARN", "12 damaged frames"),
    ],
)
def test_a_link_that_flaps_makes_its_phone_suspect(
    link: LinkCounters | None, status: str, told: str
) -> None:
    found = network.link(PhoneFacts("phone001", "127.88.0.11", link=link), RACK)
    assert found.status == status
    assert told in found.message
