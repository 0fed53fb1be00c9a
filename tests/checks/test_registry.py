"""The registry of checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Network

import pytest

from fleetctl.checks import rack as rack_checks
from fleetctl.checks import registry
from fleetctl.checks.registry import Result, check, checks, run_checks, worst
from fleetctl.rack import Mistake, Network, Phone, Rack

NETWORK = Network(IPv4Network("10.1.0.0/24"), "ethernet", "ours", controller="10.1.0.1")


@pytest.fixture(autouse=True)
def _empty_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_checks", {})
    return


def rack(*phones: Phone, warnings: tuple[Mistake, ...] = ()) -> Rack:
    return Rack("lab", NETWORK, {phone.name: phone for phone in phones}, warnings=warnings)


def register(name: str, level: int = 1) -> None:
    @check(name=name, scope="phone", level=level, cure="restart it")
    def answer(facts: Result, _: Rack) -> Result:
        return facts


def test_checks_of_a_scope_run_in_order_up_to_a_level() -> None:
    register("quick")
    register("thorough", level=2)
    register("last")
    assert [item.name for item in checks("phone")] == ["quick", "last"]
    assert [item.name for item in checks("phone", level=2)] == ["quick", "last", "thorough"]
    assert checks("rack") == []


def test_an_outcome_carries_the_checks_cure() -> None:
    register("quick")
    (outcome,) = run_checks("phone", Result("CRITICAL", "too hot"), rack())
    assert (outcome.result.message, outcome.check.cure) == ("too hot", "restart it")


def test_a_check_that_breaks_is_unknown_and_stops_no_other() -> None:
    @check(name="broken", scope="phone", cure="mend it")
    def broken(facts: Result, _: Rack) -> Result:
        raise LookupError("no such sensor")

    register("quick")
    first, second = run_checks("phone", Result("OK", "fine"), rack())
    assert first.result.status == "UNKNOWN"
    assert "LookupError: no such sensor" in first.result.message
    assert second.result.status == "OK"


def test_a_name_belongs_to_one_check() -> None:
    register("quick")
    with pytest.raises(ValueError, match="two checks are called quick"):
        register("quick")


def test_the_worst_status_counts_and_unknown_is_worse_than_a_warning() -> None:
    results = [Result("OK", ""), Result("WARN", ""), Result("UNKNOWN", "")]
    assert worst(results) == "UNKNOWN"
    assert worst([*results, Result("CRITICAL", "")]) == "CRITICAL"
    assert worst([]) == "OK"


def test_doubtful_lines_are_a_warning() -> None:
    doubt = Mistake("rack.yml", 3, "8 phones on Wi-Fi", "wire them")
    assert rack_checks.rack_file(rack(warnings=(doubt,)), rack()).message == (
        "rack.yml:3: 8 phones on Wi-Fi; wire them"
    )
    assert rack_checks.rack_file(rack(), rack()).status == "OK"


def test_phones_without_serial_or_without_the_mac_of_their_lease_are_named() -> None:
    bare = Phone("phone001", "10.1.0.11")
    half = Phone("phone002", "10.1.0.12", serial="R58M0002")
    whole = Phone("phone003", "10.1.0.13", serial="R58M0003", mac="02:00:00:00:00:03")
    assert rack_checks.enrolment(rack(bare, half), rack()).message == "not enrolled: phone001"
    lease = rack_checks.enrolment(rack(half, whole), rack())
    assert (lease.status, lease.message.rpartition(": ")[2]) == ("WARN", "phone002")
    assert rack_checks.enrolment(rack(whole), rack()).status == "OK"
    opened = rack_checks.enrolment(rack(replace(whole, adb_open=True)), rack())
    assert opened.status == "WARN"
    assert "adb is open on the network" in opened.message
