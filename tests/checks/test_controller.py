"""`check controller`: what is wrong with this machine and what it needs around it."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from fleetctl.checks import controller_look
from fleetctl.checks.controller import ControllerFacts, Guarding, Interface, Serving
from fleetctl.checks.controller_look import (
    clock_offset_seconds,
    drift,
    look,
    read_interfaces,
    ssh_problems,
    state_problem,
    wanted_units,
)
from fleetctl.checks.registry import run_checks
from fleetctl.rack import Network, Phone, Rack, RackPaths
from fleetctl.state import State

RACK = Rack(
    "lab",
    Network(IPv4Network("10.0.0.0/24"), "ethernet", "ours", "ours", controller="10.0.0.1"),
    {"phone001": Phone("phone001", "10.0.0.11"), "phone002": Phone("phone002", "10.0.0.12")},
)
WELL = ControllerFacts(
    free_bytes={"/home": 9 << 30},
    interfaces=(Interface("lo", "127.0.0.1", 8, 65536), Interface("eth0", "10.0.0.1", 24, 1500)),
    open_files=4096,
    clock_synchronised=True,
    clock_offset_seconds=0.02,
    units={"nginx": "active", "dnsmasq": "active"},
    snapshot="2026-11-29-0aad95",
    mirror_problem="",
    watched=2,
    tools={"ssh": "9.2"},
    guard=Guarding(True, 3.0),
    serve=Serving("process 7 of ann"),
)


def found(facts: ControllerFacts, rack: Rack = RACK) -> dict[str, str]:
    outcomes = run_checks("controller", facts, rack)
    return {o.check.name: o.result.status for o in outcomes if o.result.status != "OK"}


def said(facts: ControllerFacts, name: str) -> str:
    outcomes = run_checks("controller", facts, RACK)
    return next(o.result.message for o in outcomes if o.check.name == name)


def ports(address: str, prefix: int = 24, mtu: int = 1500, up: bool = True) -> Any:
    return (Interface("eth0", address, prefix, mtu, up),)


@pytest.mark.parametrize(
    ("changes", "check", "status"),
    [
        ({"free_bytes": {"/home": 1 << 20, "/tmp": 9 << 30}}, "disk", "CRITICAL"),  # noqa: S108
        ({"free_bytes": {"/home": 1 << 30}}, "disk", "WARN"),
        ({"free_bytes": {"/home": None}}, "disk", "UNKNOWN"),
        ({"ssh_problems": ("ca has mode 0644",)}, "keys", "CRITICAL"),
        ({"unknown_phones": ("phone002",)}, "known-phones", "WARN"),
        ({"state_problem": "version 9 is newer"}, "state", "CRITICAL"),
        ({"open_files": 100}, "open-files", "WARN"),
        ({"interfaces": ports("192.168.1.5")}, "controller-address", "CRITICAL"),
        ({"interfaces": ()}, "controller-address", "CRITICAL"),
        ({"interfaces": ports("10.0.0.1", up=False)}, "controller-address", "CRITICAL"),
        ({"interfaces": ports("10.0.0.1", prefix=16)}, "controller-address", "WARN"),
        ({"interfaces": ports("10.0.0.1", mtu=1400)}, "controller-address", "WARN"),
        ({"interfaces": None}, "controller-address", "UNKNOWN"),
        ({"clock_offset_seconds": -90.0}, "controller-clock", "WARN"),
        ({"clock_synchronised": False}, "controller-clock", "WARN"),
        ({"units": {"nginx": "active", "dnsmasq": "failed"}}, "services", "CRITICAL"),
        ({"units": None}, "services", "UNKNOWN"),
        ({"snapshot": None}, "mirror", "WARN"),
        ({"mirror_problem": "HTTP 404"}, "mirror", "CRITICAL"),
        ({"prometheus_problem": "is not ready: refused"}, "prometheus", "WARN"),
        ({"watched": 1}, "prometheus", "WARN"),
        ({"alertmanager_problem": "is not ready: refused"}, "alertmanager", "WARN"),
        ({"guard": None}, "guard", "UNKNOWN"),
        ({"guard": Guarding(False)}, "guard", "WARN"),
        ({"guard": Guarding(False, 900.0)}, "guard", "CRITICAL"),
        ({"serve": None}, "serve", "UNKNOWN"),
        ({"serve": Serving(None, installed=True)}, "serve", "WARN"),
        ({"serve": Serving(None, waiting=2)}, "serve", "CRITICAL"),
        ({"tools": {"ssh": "9.2", "adb": None}}, "tools", "WARN"),
        ({"drift": {"asyncssh": ("2.24", "2.20")}}, "dependencies", "WARN"),
    ],
)
def test_each_fault_is_found_by_its_own_check(
    changes: dict[str, Any], check: str, status: str
) -> None:
    assert found(WELL) == {}
    assert found(replace(WELL, **changes)) == {check: status}


def test_what_a_rack_does_not_need_is_no_fault() -> None:
    assert found(replace(WELL, units={}, serve=Serving(None))) == {}


def test_a_services_host_that_is_away_is_named_once() -> None:
    away = replace(WELL, services_problem="it does not let us in", units=None)
    assert found(away) == {"services-host": "CRITICAL", "services": "UNKNOWN"}


def test_a_wrong_prefix_tells_what_comes_of_it() -> None:
    told = said(replace(WELL, interfaces=ports("10.0.0.1", prefix=16)), "controller-address")
    assert "10.0.0.1 on eth0 has prefix /16, the rack's network is 10.0.0.0/24" in told


def test_addresses_are_read_from_the_tool_itself() -> None:
    done = subprocess.run(
        ["ip", "-json", "-4", "address", "show", "dev", "lo"], capture_output=True, check=True
    )
    (lo, *_) = read_interfaces(json.loads(done.stdout))
    assert (lo.name, lo.address, lo.prefix) == ("lo", "127.0.0.1", 8)


# --- keys ----------------------------------------------------------------------------------------


@pytest.fixture
def paths(tmp_path: Path) -> RackPaths:
    """A rack's folder with an authority and an operator, as site.yml makes them."""
    paths = RackPaths("lab", tmp_path)
    paths.ensure()
    paths.ssh.chmod(0o700)
    for key in (paths.ca, paths.operator):
        _keygen("-t", "ed25519", "-N", "", "-f", str(key))
    _keygen("-s", str(paths.ca), "-I", "operator", "-n", "operator", str(paths.operator_pub))
    return paths


def _keygen(*arguments: str) -> None:
    subprocess.run(["ssh-keygen", "-q", *arguments], check=True, stdin=subprocess.DEVNULL)


def test_keys_that_are_as_they_should_be_are_no_problem(paths: RackPaths) -> None:
    assert ssh_problems(paths) == []


def test_a_key_that_others_may_read_is_named_with_its_mode(paths: RackPaths) -> None:
    paths.ca.chmod(0o644)
    paths.ssh.chmod(0o755)
    assert ssh_problems(paths) == [
        f"{paths.ssh} has mode 0755, shall be 0700",
        f"{paths.ca} has mode 0644, shall be 0600",
    ]


def test_a_certificate_of_another_authority_is_named(paths: RackPaths) -> None:
    for old in (paths.ca, paths.ca_pub):
        old.unlink()
    _keygen("-t", "ed25519", "-N", "", "-f", str(paths.ca))
    assert ssh_problems(paths) == ["the operator's certificate is of another authority"]


def test_keys_that_are_missing_are_named(tmp_path: Path) -> None:
    paths = RackPaths("lab", tmp_path)
    paths.ensure()
    assert [line.rpartition("/")[2] for line in ssh_problems(paths) if "missing" in line] == [
        "ca is missing",
        "operator is missing",
    ]


# --- state, clock, services ----------------------------------------------------------------------


def test_a_damaged_state_is_named_and_a_whole_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    assert state_problem(path) == ""
    with State(path) as state:
        state.drain([f"phone{n:03}" for n in range(300)], "ann", "x" * 200)
    assert state_problem(path) == ""
    content = path.read_bytes()
    for name in ("state.db-wal", "state.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    path.write_bytes(content[: len(content) // 2])
    assert str(path) in state_problem(path)


@contextmanager
def ntp_server(ahead_seconds: float) -> Iterator[int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def serve() -> None:
            _, peer = sock.recvfrom(48)
            now = time.time() + ahead_seconds + 2_208_988_800
            stamp = struct.pack("!II", int(now), int(now % 1 * (1 << 32)))
            sock.sendto(bytes(32) + stamp + stamp, peer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield sock.getsockname()[1]
        thread.join()


def test_the_clock_of_a_server_is_compared_with_this_one() -> None:
    with ntp_server(90.0) as port:
        offset = clock_offset_seconds("127.0.0.1", port)
    assert offset == pytest.approx(90.0, abs=5.0)


def test_what_the_services_host_shall_do_follows_from_the_rack(paths: RackPaths) -> None:
    assert wanted_units(RACK, paths) == ["dnsmasq", "chrony"]
    paths.mirror.write_text("{}")
    theirs = replace(RACK, network=replace(RACK.network, dhcp="theirs", time="theirs"))
    assert wanted_units(theirs, paths) == ["nginx"]


def test_packages_are_compared_with_the_lock_where_it_counts_here() -> None:
    from importlib.metadata import version

    lock = (
        f"click=={version('click')} \\\n    --hash=sha256:00\n"
        "rich==0.0.1 \\\n    --hash=sha256:00\n"
        "colorama==0.4.6 ; sys_platform == 'win32' \\\n    --hash=sha256:00\n"
        "no-such-package==1.0\n"
    )
    assert drift(lock) == {
        "rich": ("0.0.1", version("rich")),
        "no-such-package": ("1.0", None),
    }


class _Services(BaseHTTPRequestHandler):
    """Serves what mirror and Prometheus would."""

    pages: dict[str, bytes]

    def do_GET(self) -> None:
        page = self.pages.get(self.path.partition("?")[0])
        self.send_response(404 if page is None else 200)
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    pages: dict[str, bytes] = {}
    handler: Callable[..., _Services] = type("Handler", (_Services,), {"pages": pages})
    server = HTTPServer(("127.88.0.1", 0), handler)
    for port in ("PROMETHEUS_PORT", "ALERTMANAGER_PORT", "MIRROR_PORT"):
        monkeypatch.setattr(controller_look, port, server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield pages
    server.shutdown()
    thread.join()
    server.server_close()


def test_everything_is_looked_at_together(pages: dict[str, bytes], paths: RackPaths) -> None:
    """On this machine, which serves the rack itself."""
    network = Network(IPv4Network("127.0.0.0/8"), "ethernet", controller="127.88.0.1")
    rack = replace(RACK, network=network)
    paths.mirror.write_text(json.dumps({"snapshot": "2026-11-29-0aad95"}))
    pages["/2026-11-29-0aad95/dists/stable/InRelease"] = b"signed"
    pages["/-/ready"] = b"ready"
    targets = [{"labels": {"phone": name}} for name in ("phone001", "phone002", "phone009")]
    pages["/api/v1/targets"] = json.dumps({"data": {"activeTargets": targets}}).encode()

    facts = asyncio.run(look(rack, paths))

    assert (facts.snapshot, facts.mirror_problem) == ("2026-11-29-0aad95", "")
    assert (facts.watched, facts.prometheus_problem) == (2, None)
    assert facts.alertmanager_problem is None
    assert facts.unknown_phones == ("phone001", "phone002")
    assert facts.ssh_problems == ()
    assert facts.tools["ssh-keygen"] == "there"
    assert facts.free_bytes[str(paths.home)]
    # The same once more, with nothing there.
    pages.clear()
    facts = asyncio.run(look(rack, paths))
    assert "HTTP 404" in (facts.mirror_problem or "")
    assert "is not ready: HTTP 404" in (facts.prometheus_problem or "")
    assert "is not ready: HTTP 404" in (facts.alertmanager_problem or "")
