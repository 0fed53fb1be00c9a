"""`drain`, `undrain` and `status PHONE`: who, when, why, until when."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from fleetctl.cli import phone_view
from fleetctl.cli.main import cli
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import InputError
from fleetctl.state import Contact, Drain, Event, Health, PhoneFacts, State
from fleetctl.state.facts import Allocation

RACK = """
rack: lab
network: {cidr: 127.78.0.0/24, medium: wifi, controller: 127.78.0.1}
phones: [127.78.0.11, 127.78.0.12]
"""
LOCK = """
rack: lab
version: 1
phones:
  phone001: {serial: R58M0001}
"""


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "rack.yml"
    file.write_text(RACK)
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHONERACK_RACK", str(file))
    monkeypatch.setenv("USER", "ann")
    monkeypatch.setenv("LOGNAME", "ann")
    return file


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def state(rack: Path) -> State:
    return State(rack.parent / "home/lab/state.db")


def test_a_drain_says_until_when_and_who_had_drained_before(rack: Path) -> None:
    first = call("drain", "phone001", "--why", "screen broken")
    assert "phone001: drained\n" in first.output
    second = call("drain", "phone[001-002]", "--why", "fan is changed", "--until", "2h")
    assert "phone001: drained already by ann (screen broken)" in second.output
    # Its first drain had no end; the new one does not give it one.
    assert "phone001: drained\n" in second.output
    assert re.search(r"phone002: drained until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n", second.output)
    with state(rack) as known:
        drains = {name: facts.drains[0] for name, facts in known.phones().items()}
    assert drains["phone001"].until is None
    assert drains["phone002"].until == pytest.approx(drains["phone002"].since + 7200)


@pytest.mark.parametrize("until", ["soon", "2020-01-01"])
def test_a_drain_until_no_moment_changes_nothing(rack: Path, until: str) -> None:
    call("drain", "phone002", "--why", "screen broken")
    with pytest.raises(InputError):
        call("drain", "phone001", "--why", "fan", "--until", until)
    with state(rack) as known:
        assert known.phones().keys() == {"phone002"}


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_drain_says_which_runs_go_on_on_its_phones(rack: Path, output: str) -> None:
    call("status", "phone001")
    with state(rack) as known:
        known.allocate("digits-1", ["phone001"])
    said = call("drain", "phone[001-002]", "--why", "swollen", "-o", output).stderr
    told = "phone001: draining, run digits-1 goes on there; `fleetctl stop digits-1` ends it"
    assert told in said.splitlines()
    assert "phone002: draining" not in said


def test_a_drain_without_a_reason_is_refused(rack: Path) -> None:
    assert call("drain", "phone001", "--why", " ").exit_code == 2
    assert call("drain", "phone001").exit_code == 2


def test_the_status_of_one_phone_tells_what_happened_to_it(rack: Path) -> None:
    call("drain", "phone001", "--why", "screen broken")
    call("undrain", "phone001")
    call("drain", "phone001", "--why", "fan is changed", "--until", "2h")
    document = json.loads(call("status", "phone001", "-o", "json").output)
    (phone,) = document["phones"]
    assert phone["state"] == "drained"
    assert phone["drains"][0]["until"] > phone["drains"][0]["since"]
    kinds = [(event["kind"], event["who"]) for event in phone["history"]]
    assert kinds == [("drained", "ann"), ("undrained", "ann"), ("drained", "ann")]
    shown = call("status", "phone001").output
    assert "undrained" in shown
    assert "drain by ann: screen broken" in shown
    # Of several phones only how they are.
    several = json.loads(call("status", "-o", "json").output)["phones"]
    assert [phone["history"] for phone in several] == [None, None]


def test_a_place_without_a_phone_is_empty_and_not_asked(rack: Path) -> None:
    rack.with_name("rack.lock.yml").write_text(LOCK)
    shown = call("status")
    assert re.search(r"^phone002 +empty", shown.output, re.MULTILINE)
    assert "phone002 empty: enrol a phone there" in shown.output
    # Nobody tried to reach it.
    assert shown.output.count("host key") == 1
    with state(rack) as known:
        assert "phone002" not in known.phones()


def test_phones_of_a_check_that_was_killed_are_given_back_by_the_next_one(rack: Path) -> None:
    call("drain", "phone002", "--why", "screen broken")
    with state(rack) as known:
        known.allocate("check-999999999", ["phone001"])
    assert call("check", "phone001", "--level", "2").exit_code == 4
    with state(rack) as known:
        assert known.phones()["phone001"].run is None
        told = [event.why for event in known.history("phone001") if event.kind == "released"]
        assert told[0] == "by run check-999999999: what held them was killed"
        assert told[1].startswith("by run check-")


def test_phones_at_work_are_left_out_of_a_deep_check(rack: Path) -> None:
    call("drain", "phone002", "--why", "screen broken")
    with state(rack) as known:
        known.allocate("digits-1", ["phone001"])
    run = rack.parent / "home/lab/runs/digits-1"
    run.mkdir()
    RunFolder(run).record("created", phones=["phone001"])
    done = call("check", "--level", "3")
    assert "phone001: at work, left out" in done.output
    with state(rack) as known:
        assert known.phones()["phone001"].run == "digits-1"
        assert known.phones()["phone001"].health is None


def test_what_is_known_of_a_phone_fits_80_columns() -> None:
    facts = PhoneFacts(
        drains=(Drain("temperature", "47 degrees", "check", 0.0), Drain("ann", "x", "person", 0.0)),
        health=Health("CRITICAL", "free disk is 12 MiB, needs 1024 MiB", 5.0, "preflight"),
        run="digits-1",
        contact=Contact(seen=1.0, missed_since=7.0, why="no route to it " * 5),
        allocation=Allocation("digits-1", 3.0, "serve", "queued by ann"),
    )
    events = [Event("phone001", float(n), "health", "ann", f"OK {n} " * 20) for n in range(30)]
    console = Console(file=StringIO(), width=80)
    console.print(phone_view.render(facts, events))
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for word in ("check temperature", "CRITICAL: free disk", "run digits-1: queued by", "silent"):
        assert word in text
    assert "… and 10 older ones" in text
