"""Checks of level 2 and 3, the programs that look, and the drains that they leave."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from fleetctl.checks import burn_probe, look_probe
from fleetctl.checks.answer import DeepFacts, PhoneFacts
from fleetctl.checks.health import keep
from fleetctl.checks.phone import judge
from fleetctl.checks.readings import Readings
from fleetctl.rack import Network, Phone, Rack, Thresholds
from fleetctl.state import State

RACK = Rack(
    "lab",
    Network(IPv4Network("10.0.0.0/24"), "ethernet"),
    {"phone001": Phone("phone001", "10.0.0.1", model="SM-G975F", api_level=31)},
)
DEEP = DeepFacts(
    said={"android": {"model": "SM-G975F", "api_level": 31}},
    mtu_problem="",
    loss_ratio=0.0,
    goodput_mbits=930.0,
    wake_lock=True,
    sustained_ratio=0.9,
    burn_celsius=39.0,
    burn_problem="",
)
FACTS = PhoneFacts("phone001", "10.0.0.1", deep=DEEP)
LEVELS = ("identity", "wake-lock", "mtu", "loss", "goodput", "burn-in", "sustained")


def found(deep: DeepFacts, rack: Rack = RACK) -> dict[str, str]:
    outcomes = judge({"phone001": replace(FACTS, deep=deep)}, rack, 3)["phone001"]
    return {
        each.check.name: each.result.status
        for each in outcomes
        if each.check.name in LEVELS and each.result.status != "OK"
    }


@pytest.mark.parametrize(
    ("changes", "check", "status"),
    [
        ({"said": {"android": {"model": "SM-G960F"}}}, "identity", "CRITICAL"),
        ({"said": {"android": {"model": "SM-G975F", "api_level": 33}}}, "identity", "WARN"),
        ({"said": None}, "identity", "UNKNOWN"),
        ({"wake_lock": False}, "wake-lock", "WARN"),
        ({"wake_lock": None}, "wake-lock", "UNKNOWN"),
        ({"mtu_problem": "packets of 9000 bytes are lost"}, "mtu", "CRITICAL"),
        ({"loss_ratio": 0.03}, "loss", "CRITICAL"),
        ({"loss_ratio": None}, "loss", "UNKNOWN"),
        ({"goodput_mbits": 94.0}, "goodput", "CRITICAL"),
        ({"goodput_mbits": None}, "goodput", "UNKNOWN"),
        ({"burn_problem": "memory gives back other bytes"}, "burn-in", "CRITICAL"),
        ({"sustained_ratio": 0.5}, "sustained", "CRITICAL"),
        ({"burn_celsius": 46.0}, "sustained", "CRITICAL"),
    ],
)
def test_each_fault_is_found_by_its_own_check(
    changes: dict[str, Any], check: str, status: str
) -> None:
    assert found(DEEP) == {}
    assert found(replace(DEEP, **changes)) == {check: status}


def test_the_rack_file_sets_the_limits() -> None:
    slow = replace(DEEP, goodput_mbits=94.0, loss_ratio=0.03)
    limits = Thresholds(min_goodput_mbits=90.0, max_loss_ratio=0.05)
    assert found(slow, replace(RACK, thresholds=limits)) == {}


def test_phones_that_share_the_air_need_less() -> None:
    network = Network(IPv4Network("10.0.0.0/24"), "wifi")
    assert found(replace(DEEP, goodput_mbits=40.0), replace(RACK, network=network)) == {}


def test_a_check_drains_and_lifts_its_own_drain_only(tmp_path: Path) -> None:
    lossy = {"phone001": replace(FACTS, deep=replace(DEEP, loss_ratio=0.2))}
    fine = {"phone001": FACTS}
    unasked = {"phone001": replace(FACTS, deep=DeepFacts())}

    def drains(facts: dict[str, PhoneFacts], level: int) -> list[tuple[str, str]]:
        keep(state, facts, judge(facts, RACK, level))
        known = state.phones()["phone001"]
        return [(drain.origin, drain.who) for drain in known.drains]

    with State(tmp_path / "state.db") as state:
        assert drains(fine, 3) == []
        assert drains(lossy, 2) == [("check", "loss")]
        # A launch's preflight neither asks nor forgets it; nor does a look that cannot tell.
        assert drains(fine, 1) == [("check", "loss")]
        assert drains(unasked, 2) == [("check", "loss")]
        state.drain(["phone001"], "ann", "screen broken")
        state.drain(["phone001"], "loss", "ann's own word", "person")
        state.drain(["phone001"], "guard", "too hot", "check")
        assert sorted(drains(fine, 2)) == [
            ("check", "guard"),
            ("person", "ann"),
            ("person", "loss"),
        ]
        told = [event for event in state.history("phone001") if event.who == "check loss"]
        assert [event.kind for event in told] == ["drained", "undrained"]


def test_a_battery_that_is_not_well_drains_at_once(tmp_path: Path) -> None:
    swollen = {"phone001": replace(FACTS, readings=Readings(battery_health="over_voltage"))}
    with State(tmp_path / "state.db") as state:
        keep(state, swollen, judge(swollen, RACK))
        (drain,) = state.phones()["phone001"].drains
        assert (drain.by, drain.why) == (
            "check battery-health",
            "its battery is not well: over_voltage",
        )


def run(program: str, *words: str) -> Any:
    command = [sys.executable, "-", *words]
    done = subprocess.run(
        command, input=Path(program).read_text(), text=True, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def test_pings_of_this_machine_to_itself_are_answered_or_nobody_may_ping() -> None:
    answer = run(look_probe.__file__, "127.0.0.1", "20")
    assert answer["loss_ratio"] in (0.0, None)
    # No Android here.
    assert answer["wake_lock"] is None


def test_a_burn_in_of_this_machine_finds_nothing(tmp_path: Path) -> None:
    answer = run(burn_probe.__file__, "1", "2000000", "3000000", str(tmp_path / "there"))
    assert answer["problem"] == ""
    assert answer["sustained_ratio"] > 0
    assert list((tmp_path / "there").iterdir()) == []


def test_storage_that_forgets_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = iter([b"\1", b"\2"])
    monkeypatch.setattr(burn_probe, "pieces", lambda _size, _seed: [next(written) * 100])
    assert "storage gives back other bytes" in burn_probe.disk_problem(1, tmp_path)


def test_storage_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot be written and read" in burn_probe.disk_problem(1, tmp_path / "file")
