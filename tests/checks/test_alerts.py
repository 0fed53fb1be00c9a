"""Alerts that fire, by Alertmanager's answer or by Prometheus's."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import IPv4Network
from typing import Any, override

import pytest

from fleetctl.checks.alerts import Alert, firing, parse
from fleetctl.rack import Network, Rack

RACK = Rack("lab", Network(IPv4Network("127.0.0.0/8"), "wifi", services="127.0.0.1"), {})
MANAGER = [
    {
        "labels": {"alertname": "PhoneHot", "severity": "critical", "phone": "p1", "rack": "lab"},
        "annotations": {"summary": "p1 is\n hot"},
        "status": {"state": "active"},
    },
    {"labels": {"alertname": "Other", "rack": "another"}, "annotations": {}},
]
PROMETHEUS = {
    "status": "success",
    "data": {
        "alerts": [
            {"state": "pending", "labels": {"alertname": "Soon"}, "annotations": {}},
            {"state": "firing", "labels": {"alertname": "ClockOff", "phone": "p2"}},
        ]
    },
}


@contextmanager
def answering(document: Any) -> Iterator[int]:
    """A server on loopback that says the same to everybody; its port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        @override
        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_alertmanager_is_asked_and_other_racks_are_left_out() -> None:
    with answering(MANAGER) as port:
        assert firing(RACK, ports=(port, 1)) == [Alert("PhoneHot", "critical", "p1", "p1 is hot")]


def test_without_alertmanager_prometheus_is_asked_for_what_fires() -> None:
    with answering(PROMETHEUS) as port:
        assert firing(RACK, ports=(1, port)) == [Alert("ClockOff", "", "p2", "")]


def test_whatever_else_listens_there_is_no_monitoring() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def greet() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                with connection:
                    connection.sendall(b"220 smtp.example.org ESMTP\r\n")

        greeter = threading.Thread(target=greet, daemon=True)
        greeter.start()
        assert firing(RACK, ports=(port, port)) is None
        greeter.join()


def test_without_monitoring_there_is_nothing_to_say() -> None:
    assert firing(RACK, ports=(1, 1)) is None
    assert firing(replace(RACK, network=replace(RACK.network, services=None))) is None


@pytest.mark.parametrize(
    "document",
    [
        *(None, "", {}, [], [None], [{"labels": []}], {"data": None}, {"data": {"alerts": "x"}}),
        {"data": {"alerts": [{"state": "firing", "labels": {"alertname": None}}, 7]}},
    ],
)
def test_an_odd_answer_is_no_crash(document: Any) -> None:
    assert isinstance(parse(document, "lab"), list)
