"""The fleet exporter's page: what it says, that promtool has nothing to say, where it listens."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from fleetctl.errors import FleetError
from fleetctl.guard.kept import Kept
from fleetctl.guard.memory import Memory
from fleetctl.rack import InputError, Rack, load_rack
from fleetctl.serve import beside, last_checks
from fleetctl.serve.beside import CAUSES, Beside, GuardSeen
from fleetctl.serve.exporter import Address, FleetCollector, Seen, listen, read_address
from fleetctl.serve.run import Loop
from fleetctl.serve.service import Service

PROJECT = Path(__file__).resolve().parents[2]


def page_of(seen: Seen | None) -> str:
    registry = CollectorRegistry()
    registry.register(FleetCollector(lambda: seen))
    return generate_latest(registry).decode()


@pytest.fixture
def seen(paper: Any) -> Seen:
    """Two jobs wait for phones of which one is drained, while another job has six of them."""
    paper.state.drain(["phone008"], "ada", "battery swollen")
    last_checks.note(paper.paths.last_checks, "cables", 2, now=1000.0)
    for phones in ("6", "4"):
        paper.enqueue(phones)
    running = paper.queue.jobs()[0].name
    paper.queue.give(running, [f"phone00{n}" for n in range(1, 7)])
    paper.state.allocate(running, [f"phone00{n}" for n in range(1, 7)])
    paper.run(running).record("created", phones=[f"phone00{n}" for n in range(1, 7)])
    with paper.run(running).supervise():
        service = Service(paper.rack_file, paper.paths, paper.state, paper.queue, lambda _: None)
        turn = service.turn()
    return Seen(turn, last_checks.read(paper.paths.last_checks), turns=3)


def test_the_page_tells_phones_jobs_queue_drains_checks_and_targets(seen: Seen) -> None:
    lines = page_of(seen).splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    def value(name: str, **labels: str) -> float:
        inside = ",".join(
            f'{key}="{text}"' for key, text in sorted({"rack": "paper", **labels}.items())
        )
        return float(values[f"phonerack_fleet_{name}{{{inside}}}"])

    assert value("phones", state="busy") == 6
    assert value("phones", state="ready") == 1
    assert value("phones", state="drained") == 1
    assert value("phones", state="lost") == 0
    assert value("phone_state", phone="phone008", state="drained") == 1
    assert value("drains", origin="person") == 1
    assert value("targets_expected") == 8
    assert (value("jobs", state="queued"), value("jobs", state="running")) == (1, 1)
    assert value("run_phones", run="digits-1") == 6
    assert value("queue_phones") == 4
    assert value("check_findings", check="cables") == 2
    assert value("check_timestamp_seconds", check="cables") == 1000
    assert value("turns_total") == 3


def test_what_could_not_be_looked_at_is_absent_and_never_0(seen: Seen) -> None:
    def told(beside: Beside) -> list[str]:
        page = page_of(replace(seen, beside=beside)).splitlines()
        return [
            line for line in page if line.startswith(("phonerack_fleet_f", "phonerack_fleet_gu"))
        ]

    assert told(Beside()) == []
    assert told(Beside(failed={})) == [
        f'phonerack_fleet_failed_runs{{cause="{cause}",rack="paper"}} 0.0' for cause in CAUSES
    ]
    assert len(told(Beside(GuardSeen(1.0, {}, 0)))) == 2
    trains = 'phonerack_fleet_run_trains{rack="paper",run="digits-1"} 1.0'
    assert trains in page_of(replace(seen, beside=Beside(training=["digits-1"])))


def test_the_time_is_that_of_the_scrape_however_old_the_turn(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: seen.turn.time + 400.0)
    page = dict(line.rsplit(" ", 1) for line in page_of(seen).splitlines() if line[0] != "#")
    clock, turn = (
        float(page[f'phonerack_fleet_{name}_timestamp_seconds{{rack="paper"}}'])
        for name in ("clock", "turn")
    )
    assert clock - turn == pytest.approx(400.0)


def test_guard_is_told_of_while_the_service_cannot_do_a_turn(
    paper: Any, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(paper.rack_file, paper.paths, paper.state, paper.queue, paper.said.append)
    loop = Loop(service, None)
    loop._turn()
    kept = Kept(paper.paths)
    kept.make()
    kept.save(Memory(1000.0).to_json())
    os.utime(kept.folder / "memory.json", (1000.0, 1000.0))
    monkeypatch.setattr(beside, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(service.state, "phones", broken)
    loop._turn()
    assert "nothing can be started: the disk is full" in paper.said
    assert 'guard_timestamp_seconds{rack="paper"} 1000.0' in page_of(loop._seen)


def broken(*_: object) -> Any:
    raise OSError("the disk is full")


def test_a_phone_is_in_one_state_only(seen: Seen) -> None:
    states = [line for line in page_of(seen).splitlines() if "fleet_phone_state{" in line]
    assert len(states) == 8


def test_the_charge_window_is_told_where_there_are_outlets_to_keep_it(seen: Seen) -> None:
    def window(rack: Rack) -> list[str]:
        lines = page_of(replace(seen, turn=replace(seen.turn, rack=rack))).splitlines()
        return [line for line in lines if line.startswith("phonerack_fleet_charge_window")]

    fed = load_rack(PROJECT / "inventory/standin.yml")
    low, high = window(fed)
    assert low == 'phonerack_fleet_charge_window_ratio{end="low",rack="standin"} 0.4'
    assert high == 'phonerack_fleet_charge_window_ratio{end="high",rack="standin"} 0.6'
    assert not window(replace(fed, guard=replace(fed.guard, charge_high_percent=100.0)))
    assert not window(seen.turn.rack)


def test_before_the_first_turn_it_says_nothing(seen: Seen) -> None:
    assert page_of(None) == ""


@pytest.mark.tools
@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool")
def test_promtool_finds_nothing_to_say(seen: Seen) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=page_of(seen), text=True, capture_output=True
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_it_listens_where_it_is_told_and_nowhere_else(seen: Seen) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = listen(Address("127.0.0.1", port), lambda: seen)
    try:
        assert server.server_address == ("127.0.0.1", port)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            assert b"phonerack_fleet_phones" in page.read()
        with pytest.raises(FleetError, match=f"cannot listen on 127.0.0.1:{port}: Address already"):
            listen(Address("127.0.0.1", port), lambda: seen)
    finally:
        server.shutdown()
        server.server_close()


def test_addresses_are_read_or_refused() -> None:
    assert read_address("off") is None
    assert read_address("10.0.0.1") == Address("10.0.0.1", 9867)
    assert str(read_address("127.0.0.1:90")) == "127.0.0.1:90"
    for text in ("", ":80", "host:", "host:zero", "host:70000"):
        with pytest.raises(InputError, match="no address to listen on"):
            read_address(text)


def test_a_damaged_file_of_checks_is_as_good_as_none(tmp_path: Path) -> None:
    file = tmp_path / "last_checks.json"
    last_checks.note(file, "cables", 0, now=1.0)
    last_checks.note(file, "packages", 3, now=2.0)
    assert {name: each.findings for name, each in last_checks.read(file).items()} == {
        "cables": 0,
        "packages": 3,
    }
    for damage in ("", "[]", '{"checks": {"cables": 1}}', '{"checks": {"cables": {"time": 1}}}'):
        file.write_text(damage)
        assert last_checks.read(file) == {}
