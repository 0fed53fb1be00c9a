"""Energy of a run, as far as Prometheus has recorded watts of its phones."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Network
from pathlib import Path
from threading import Thread

import pytest

from fleetctl.jobs import energy, runs
from fleetctl.jobs.cost import Held, cost_of
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import Network, Phone, Rack

RACK = Rack(
    name="lab",
    network=Network(IPv4Network("127.0.0.0/8"), "ethernet", services="127.0.0.1"),
    phones={f"phone00{n}": Phone(f"phone00{n}", f"127.0.0.{n}") for n in (1, 2)},
)


def test_only_phones_that_were_measured_nearly_all_the_time_count() -> None:
    spans = [Held("phone001", 0, 1800), Held("phone001", 3600, 5400), Held("phone002", 0, 3600)]

    assert energy.watt_hours(spans, {"phone001": (4.0, 0.9), "phone002": (9.0, 0.5)}) == {
        "phone001": 4.0
    }


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """An hour on two phones."""
    run = runs.create(tmp_path / "runs", "digits")
    lines = [
        {"time": 0.0, "kind": "created", "phones": ["phone001", "phone002"]},
        {"time": 3600.0, "kind": "ended", "state": "done"},
    ]
    run.events_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_the_switch_says_more_than_a_battery(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Prometheus(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parameters = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            (expression,) = parameters["query"]
            asked.append(expression)
            assert parameters["time"] == ["3600.000"]
            phones = ["phone001"] if "poe_power" in expression else ["phone001", "phone002"]
            value = "200" if "count_over_time" in expression else "5"
            value = "3" if "avg_over" in expression and "battery" in expression else value
            rows = [{"metric": {"phone": phone}, "value": [0, value]} for phone in phones]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": {"result": rows}}).encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Prometheus) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(energy, "_PORT", server.server_port)
        asyncio.run(energy.measure(RACK, run))
        server.shutdown()

    assert 'rack="lab"' in asked[0]
    cost = cost_of(run.events(), 0)
    assert (cost.energy_watt_hours, cost.measured) == (8.0, 2)


def test_where_nobody_has_recorded_anything_nothing_is_said(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(energy, "_PORT", 9)

    asyncio.run(energy.measure(RACK, run))

    assert cost_of(run.events(), 0).words().endswith("energy: not measured")
