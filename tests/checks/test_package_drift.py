"""Drift: which phones differ from the rack's snapshot in what, phones of one kind on one line."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from fleetctl.checks.packages import (
    PackageFacts,
    Snapshot,
    differences,
    findings,
    judge,
    keep_contact,
    most_common,
    read,
    read_snapshot,
)
from fleetctl.rack import Network, Phone, Rack, Versions
from fleetctl.rack.variables import phone_packages
from fleetctl.remote import Result
from fleetctl.remote.faults import key_changed, throttled, unreachable
from fleetctl.state import State

RACK = Rack(
    "lab",
    Network(IPv4Network("10.1.0.0/24"), "ethernet", "ours", controller="10.1.0.1"),
    {name: Phone(name, "10.1.0.11") for name in ("phone001", "phone003", "phone007")},
)
PINNED = {"openmpi": "5.0.11"}
NEEDED = [spec.partition("=")[0] for spec in phone_packages(RACK)]
WHOLE = {(name, "aarch64"): PINNED.get(name, "1.0") for name in NEEDED}
SNAPSHOT = Snapshot("2026-11-29-aaaaaa", WHOLE)


def phone(name: str, snapshot: str | None = SNAPSHOT.name, **versions: str) -> PackageFacts:
    held = {**WHOLE, **{(key, "aarch64"): value for key, value in versions.items()}}
    return PackageFacts(name, snapshot=snapshot, versions=held, wanted=SNAPSHOT)


def said(*phones: PackageFacts) -> list[str]:
    return [str(each) for each in findings(judge({each.name: each for each in phones}, RACK))]


def test_phones_as_the_snapshot_has_them_are_nothing_to_speak_of() -> None:
    assert said(phone("phone001"), phone("phone003")) == []


def test_phones_with_the_same_difference_stand_on_one_line() -> None:
    found = said(
        phone("phone001"),
        phone("phone003", python="0.9", rsync="0.8"),
        phone("phone007", python="0.9"),
    )

    assert found == [
        "phone[003,007]: python 0.9 instead of 1.0",
        "phone003: rsync 0.8 instead of 1.0",
    ]


def test_a_missing_package_is_a_difference_and_a_further_one_is_the_phones_own_affair() -> None:
    facts = phone("phone001", vim="9.1")
    left = {key: version for key, version in facts.versions.items() if key[0] != "rsync"}

    assert [str(each) for each in differences(replace(facts, versions=left), RACK)] == [
        "rsync missing instead of 1.0"
    ]


def test_another_series_by_the_rack_file_is_no_drift() -> None:
    other = replace(RACK, versions=Versions(openmpi="4.1"))

    assert differences(phone("phone001", openmpi="4.1.8"), other) == []
    assert [str(each) for each in differences(phone("phone001", openmpi="4.1.8"), RACK)] == [
        "openmpi 4.1.8 instead of 5.0.11"
    ]


def test_a_phone_on_another_snapshot_or_between_two_is_named() -> None:
    assert said(phone("phone001", "2026-11-01-bbbbbb"), phone("phone003", None)) == [
        "phone001: stands on 2026-11-01-bbbbbb, the rack's is 2026-11-29-aaaaaa",
        "phone003: stands on no snapshot as a whole, the rack's is 2026-11-29-aaaaaa",
    ]


def test_a_phone_that_is_not_reached_is_unknown_and_not_different() -> None:
    answer = Result(None, error=unreachable("phone001", "10.1.0.11", "no answer"))

    (line,) = said(read("phone001", answer))
    assert line.startswith("phone001 (10.1.0.11) is unreachable")


def test_a_switch_that_is_off_is_one_line() -> None:
    gone = [(f"phone00{n}", f"10.1.0.1{n}") for n in (1, 3, 7)]
    answers = {n: Result(None, error=unreachable(n, at, "no route")) for n, at in gone}
    (line,) = said(*(read(name, answer) for name, answer in answers.items()))
    assert line.startswith("phone[001,003,007]: is unreachable: no route")


def test_only_a_phone_that_is_silent_is_noted_as_lost(tmp_path: Path) -> None:
    faults = {
        "phone001": unreachable("phone001", "10.1.0.11", "no answer"),
        "phone003": throttled("phone003", "10.1.0.11"),
        "phone007": key_changed("phone007", "10.1.0.11"),
    }
    found = {name: read(name, Result(None, error=fault)) for name, fault in faults.items()}
    with State(tmp_path / "state.db") as state:
        keep_contact(state, found)
        known = state.phones()
    assert known["phone001"].contact.why == str(faults["phone001"])
    assert {n for n, facts in known.items() if facts.contact.missed_since} == {"phone001"}
    assert {n for n, facts in known.items() if facts.contact.seen} == {"phone003"}


def test_what_an_interrupted_dpkg_left_is_named() -> None:
    listing = (
        "2026-11-29-aaaaaa\n"
        "python\t1.0\taarch64\tok\tinstalled\n"
        "numpy\t1.0\tall\treinstreq\thalf-installed\n"
        "old\t1.0\tall\tok\tconfig-files\n"
    )

    facts = read("phone001", Result(0, listing))

    assert facts.half == ("numpy",)
    assert facts.snapshot == "2026-11-29-aaaaaa"
    assert facts.versions == {("python", "aarch64"): "1.0", ("numpy", "all"): "1.0"}


def test_a_dpkg_that_does_not_run_is_named_with_its_reason() -> None:
    facts = read("phone001", Result(1, "\n", 'CANNOT LINK EXECUTABLE "dpkg-query"'))

    assert facts.problem == (
        'phone001: exit code 1: CANNOT LINK EXECUTABLE "dpkg-query": its dpkg does not answer'
    )


def test_without_a_snapshot_phones_are_held_against_what_most_have() -> None:
    phones = [phone("phone001"), phone("phone003", python="0.9"), phone("phone007")]
    common = most_common(phones)

    assert said(*(replace(each, wanted=common) for each in phones)) == [
        "phone003: python 0.9 instead of 1.0"
    ]


def test_the_mirrors_note_is_read_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    file = tmp_path / "mirror.json"
    note: dict[str, Any] = {"snapshot": "2026-11-29-aaaaaa", "packages": [["a", "1", "all"]]}
    file.write_text(json.dumps(note))

    assert read_snapshot(file) == Snapshot("2026-11-29-aaaaaa", {("a", "all"): "1"})
    file.write_text(file.read_text()[:30])
    assert read_snapshot(file) is None
    assert read_snapshot(tmp_path / "none") is None
