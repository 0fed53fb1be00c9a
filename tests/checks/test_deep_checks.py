"""Checks of level 2 and 3, the programs that look, and the drains that they leave."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from fleetctl.bench.deep import DeepLook
from fleetctl.checks import burn_probe, look_probe
from fleetctl.checks.answer import DeepFacts, PhoneFacts
from fleetctl.checks.health import keep
from fleetctl.checks.phone import judge
from fleetctl.checks.readings import Readings
from fleetctl.rack import Network, Phone, Rack, Thresholds
from fleetctl.remote import Result as Answer
from fleetctl.remote import faults
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
        ({"burn_problem": None}, "burn-in", "UNKNOWN"),
        ({"sustained_ratio": None}, "sustained", "UNKNOWN"),
        ({"sustained_ratio": 0.5}, "sustained", "CRITICAL"),
        ({"burn_celsius": 46.0}, "sustained", "CRITICAL"),
    ],
)
def test_each_fault_is_found_by_its_own_check(
    changes: dict[str, Any], check: str, status: str
) -> None:
    assert found(DEEP) == {}
    assert found(replace(DEEP, **changes)) == {check: status}


def test_a_phone_that_is_lost_while_it_is_looked_at_has_failed_there_and_is_drained(
    tmp_path: Path,
) -> None:
    gone = "phone001 stopped answering on a connection that was up"
    looked = replace(DEEP, loss_ratio=None, wake_lock=None, look_lost=gone)
    burnt = replace(DEEP, burn_problem=None, sustained_ratio=None, burn_lost=gone)
    assert found(looked)["loss"] == "CRITICAL"
    assert found(burnt)["burn-in"] == "CRITICAL"
    with State(tmp_path / "state.db") as state:
        facts = {"phone001": replace(FACTS, deep=burnt, answered=False)}
        keep(state, facts, judge(facts, RACK, 3))
        known = state.phones()["phone001"]
        assert known.contact.missed_since is not None
        (drain,) = known.drains
        assert (drain.who, drain.why) == ("burn-in", f"was lost in its burn-in: {gone}")


def test_what_nobody_could_tell_is_told_apart_from_what_was_not_found_out() -> None:
    def missed(deep: DeepFacts, **changes: Any) -> set[str]:
        facts = {"phone001": replace(FACTS, deep=deep, **changes)}
        told = {o.check.name for o in judge(facts, RACK, 3)["phone001"] if o.result.missed}
        return told & {*LEVELS, "temperature", "plugged"}

    assert missed(DEEP) == set()
    # A phone that lets no app ping or ask, and has no other to send to.
    assert missed(replace(DEEP, loss_ratio=None, wake_lock=None, mtu_problem=None)) == set()
    assert missed(replace(DEEP, goodput_mbits=None)) == set()
    assert missed(replace(DEEP, goodput_mbits=None, goodput_problem="no report")) == {"goodput"}
    assert missed(replace(DEEP, burn_problem=None, sustained_ratio=None)) == {
        "burn-in",
        "sustained",
    }
    assert missed(DEEP, readings=Readings(battery_health="good", charge_ratio=0.5)) == {
        "temperature",
        "plugged",
    }


def test_of_a_phone_that_is_away_one_check_says_so_and_the_others_need_not() -> None:
    away = replace(FACTS, problem="it is away", reached=False, answered=False)
    outcomes = judge({"phone001": away}, RACK, 3)["phone001"]
    assert [o.check.name for o in outcomes if o.result.missed] == []
    assert [o.check.name for o in outcomes if o.result.status == "CRITICAL"] == ["reachable"]


class Silent:
    """A fleet on which phone001 is lost in one of the programs, and phone002 ends it badly."""

    def __init__(self, lost_in: str) -> None:
        self._lost_in = lost_in

    async def run_on(self, name: str, _command: str, **words: Any) -> Answer:
        if self._lost_in not in words.get("stdin", ""):
            return Answer(0, '{"error": "no iperf3 here"}')
        return Answer(None, error=faults.lost(name)) if name == "phone001" else Answer(137)


@pytest.mark.parametrize(
    ("program", "level", "field"),
    [(look_probe, 2, "look_lost"), (burn_probe, 3, "burn_lost")],
)
def test_a_phone_that_is_lost_in_a_deep_look_is_told_from_one_whose_program_fails(
    program: Any, level: int, field: str
) -> None:
    both = {name: Phone(name, f"10.0.0.{n}") for n, name in enumerate(("phone001", "phone002"), 1)}
    fleet: Any = Silent(Path(program.__file__).read_text()[:60])
    asked = {name: PhoneFacts(name, phone.address) for name, phone in both.items()}
    look = DeepLook(fleet, replace(RACK, phones=both))
    said = asyncio.run(look.gather(asked, level))
    assert getattr(said["phone001"].deep, field) == str(faults.lost("phone001"))
    assert (said["phone001"].answered, said["phone001"].reached) == (False, True)
    assert (getattr(said["phone002"].deep, field), said["phone002"].answered) == (None, True)


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
