"""Preflight: what a phone answers, and what is made of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from fleetctl.checks.hardware import heat
from fleetctl.checks.health import keep
from fleetctl.checks.phone import PROBE, PhoneFacts, folded, judge, read, with_common_versions
from fleetctl.checks.readings import Readings
from fleetctl.provision.revocation import Revoked, make_krl
from fleetctl.rack import Network, Phone, Rack, Versions
from fleetctl.remote import Fault, PhoneError, Result
from fleetctl.state import State, derive

RACK = Rack(
    name="r",
    network=Network(IPv4Network("10.0.0.0/24"), "ethernet"),
    phones={f"phone00{n}": Phone(f"phone00{n}", f"10.0.0.{n}", api_level=31) for n in (1, 2, 3)},
)
GIB = 1 << 30
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
GOOD = PhoneFacts(
    "phone001",
    "10.0.0.1",
    python="3.14.1",
    openmpi="5.0.11",
    release="1.0",
    common_release="1.0",
    common_openmpi="5.0.11",
    free_disk_bytes=9 * GIB,
    free_temporary_bytes=GIB,
    free_memory_bytes=2 * GIB,
    clock_skew_seconds=0.1,
    children=24,
    interfaces={"127.0.0.1": "lo", "10.0.0.1": "eth1"},
    revocations=2,
    wanted_revocations=2,
    neighbours={f"phone00{n}": f"10.0.0.{n}" for n in (1, 2, 3)},
    host_file=("10.0.0.1", "10.0.0.2", "10.0.0.3"),
    together=frozenset({"phone001", "phone002"}),
)
WELL = Readings(
    temperature_celsius=31.0,
    charge_ratio=0.5,
    plugged=True,
    battery_health="good",
    thermal_status=0,
    cpus_allowed=8,
    cpus=8,
)
OTHERS = dict(GOOD.neighbours or {})


def statuses(facts: PhoneFacts, rack: Rack = RACK) -> dict[str, str]:
    """The checks of a phone that are not OK."""
    outcomes = judge({facts.name: facts}, rack)[facts.name]
    return {o.check.name: o.result.status for o in outcomes if o.result.status != "OK"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"temperature_celsius": 40.0}, "its battery has 40 °C"),
        ({"thermal_status": 1}, "Android takes it for hot (thermal status 1)"),
        ({"temperature_celsius": None, "thermal_status": None}, None),
    ],
)
def test_a_warm_phone_is_good_but_others_are_better(changes: Any, why: str | None) -> None:
    assert heat(replace(GOOD, readings=replace(WELL, **changes)), RACK) == why
    assert heat(GOOD, RACK) is None, "without an exporter nothing tells"


def test_a_good_phone_passes_and_its_interface_is_known() -> None:
    assert statuses(GOOD) == {}
    assert GOOD.interface == "eth1"


@pytest.mark.parametrize(
    ("changes", "check", "status"),
    [
        ({"free_disk_bytes": GIB // 2}, "free-disk", "CRITICAL"),
        ({"free_disk_bytes": None}, "free-disk", "UNKNOWN"),
        ({"free_temporary_bytes": 4 << 20}, "free-temporary", "CRITICAL"),
        ({"free_memory_bytes": 1 << 20}, "free-memory", "CRITICAL"),
        ({"missing_modules": {"torch": "ImportError: x"}}, "interpreter", "CRITICAL"),
        ({"release": "0.9"}, "release", "CRITICAL"),
        ({"release": None}, "release", "CRITICAL"),
        ({"openmpi": "4.1.8"}, "openmpi", "CRITICAL"),
        ({"openmpi": "5.0.8"}, "openmpi", "CRITICAL"),
        ({"openmpi": None, "openmpi_problem": "Bad system call"}, "openmpi", "CRITICAL"),
        ({"interfaces": {"192.168.1.7": "wlan0"}}, "address", "CRITICAL"),
        ({"clock_skew_seconds": 90.0}, "clock", "WARN"),
        ({"children": 25}, "children", "WARN"),
        ({"children": None}, "children", "UNKNOWN"),
        ({"strays": {"digits-1": (7, 8)}}, "strays", "CRITICAL"),
        ({"bears": "phone003"}, "name", "CRITICAL"),
        ({"load": 17.0, "cores": 8}, "load", "WARN"),
        ({"slept_seconds": 40.0, "since_look_seconds": 600.0}, "awake", "WARN"),
        ({"readings": replace(WELL, temperature_celsius=45.5)}, "temperature", "CRITICAL"),
        ({"readings": replace(WELL, temperature_celsius=41.0)}, "temperature", "WARN"),
        ({"readings": replace(WELL, temperature_celsius=None)}, "temperature", "UNKNOWN"),
        ({"readings": replace(WELL, thermal_status=3)}, "throttling", "WARN"),
        ({"readings": replace(WELL, battery_health="overheat")}, "battery-health", "CRITICAL"),
        ({"readings": replace(WELL, battery_health="cold")}, "battery-health", "WARN"),
        ({"readings": replace(WELL, battery_health="unknown")}, "battery-health", "UNKNOWN"),
        ({"readings": replace(WELL, charge_ratio=0.1)}, "charge", "WARN"),
        ({"readings": replace(WELL, charge_ratio=1.0)}, "charge", "WARN"),
        ({"readings": replace(WELL, plugged=False)}, "plugged", "WARN"),
        ({"readings": replace(WELL, cpus_allowed=4)}, "cpuset", "WARN"),
        ({"revocations": 1}, "revocations", "CRITICAL"),
        ({"revocations": None}, "revocations", "CRITICAL"),
        ({"revocations": 3}, "revocations", "WARN"),
        ({"void_rules": ("passwordauthentication",)}, "revocations", "CRITICAL"),
        ({"neighbours": None}, "neighbours", "UNKNOWN"),
        ({"neighbours": OTHERS | {"phone002": "10.0.0.9"}}, "neighbours", "CRITICAL"),
        ({"neighbours": OTHERS | {"phone003": "10.0.0.9"}}, "neighbours", "WARN"),
        ({"neighbours": OTHERS | {"phone009": "10.0.0.9"}}, "neighbours", "WARN"),
        ({"host_file": ("10.0.0.3", "10.0.0.2", "10.0.0.1")}, "neighbours", "WARN"),
        ({"host_file": None}, "neighbours", "WARN"),
    ],
)
def test_each_fault_is_found_by_its_own_check(
    changes: dict[str, Any], check: str, status: str
) -> None:
    assert statuses(replace(GOOD, **changes)) == {check: status}


def test_too_many_children_are_counted_and_the_setting_that_lets_them_live_is_named() -> None:
    def said(level: int) -> Any:
        phone = replace(RACK.phones["phone001"], api_level=level)
        rack = replace(RACK, phones={"phone001": phone})
        outcomes = judge({"phone001": replace(GOOD, children=33)}, rack)["phone001"]
        return next(one.result for one in outcomes if one.check.name == "children")

    assert "has 33 child processes" in said(31).message
    assert "max_phantom_processes" in said(31).message
    assert "settings_enable_monitor_phantom_procs" in said(33).message
    # Before Android 12 nobody counts.
    assert said(30).status == "OK"


def test_a_rack_without_torch_misses_nothing_but_torch() -> None:
    rack = replace(RACK, versions=Versions(torch="none"))
    torch, numpy = {"torch": "not there"}, {"numpy": "not there"}

    assert statuses(replace(GOOD, missing_modules=torch), rack) == {}
    assert statuses(replace(GOOD, missing_modules=torch | numpy), rack) == {
        "interpreter": "CRITICAL"
    }


def test_a_rack_that_has_revoked_nothing_wants_no_list() -> None:
    assert statuses(replace(GOOD, revocations=None, wanted_revocations=0)) == {}


def test_the_probe_reads_what_ssh_keygen_and_the_roles_write(tmp_path: Path) -> None:
    ssh, home = tmp_path / "usr/etc/ssh", tmp_path / "home"
    (ssh / "ssh_config.d").mkdir(parents=True)
    (home / "phonerack").mkdir(parents=True)
    key = Revoked("ssh-ed25519 " + KEY, "rank", "phone009")
    (ssh / "phonerack_krl").write_bytes(make_krl([key]))
    (ssh / "ssh_config.d/phonerack.conf").write_text(
        "# managed\nHost phone001 10.0.0.1\n    HostName 10.0.0.1\n"
        "Host phone002 10.0.0.2\n    HostName 10.0.0.2\n"
        "Host phone001 phone002 10.0.0.1 10.0.0.2\n    Port 8022\n"
    )
    (home / "phonerack/hostfile").write_text("# ring\n10.0.0.2 slots=1\n10.0.0.1 slots=1\n")
    program = PROBE.read_text().replace("/data/data/com.termux/files", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-S", "-"], input=program, text=True, capture_output=True, timeout=60
    )

    facts = json.loads(done.stdout)

    assert facts["revocations"] == 1
    assert facts["neighbours"] == {"phone001": "10.0.0.1", "phone002": "10.0.0.2"}
    assert facts["host_file"] == ["10.0.0.2", "10.0.0.1"]


def test_of_a_phone_that_says_nothing_only_one_thing_is_critical() -> None:
    error = PhoneError("phone001", Fault.REFUSED, "phone001 refuses")
    facts = read("phone001", "10.0.0.1", Result(None, error=error), (1.0, 2.0))
    found = statuses(facts)
    assert found.pop("reachable") == "CRITICAL"
    assert set(found.values()) == {"UNKNOWN"}


@pytest.mark.parametrize(
    ("fault", "answered"),
    [
        (Fault.UNREACHABLE, False),
        (Fault.TIMEOUT, False),
        (Fault.THROTTLED, True),
        (Fault.AUTH, True),
        (Fault.HOST_KEY_CHANGED, None),
    ],
)
def test_only_silence_counts_as_no_contact(
    fault: Fault, answered: bool | None, tmp_path: Path
) -> None:
    error = PhoneError("phone001", fault, f"phone001: {fault}")
    facts = {"phone001": read("phone001", "10.0.0.1", Result(None, error=error), (1.0, 2.0))}
    with State(tmp_path / "state.db") as state:
        state.record_contact({"phone001": True})
        keep(state, facts, judge(facts, RACK))
        known = state.phones()["phone001"]
        assert facts["phone001"].answered is answered
        assert (known.contact.missed_since is not None) == (answered is False)
        # One that is there but refuses is not ready either.
        assert derive(known, time.time()) == ("lost" if answered is False else "suspect")


def test_a_phone_that_was_looked_at_and_does_not_tell_everything_is_ready(tmp_path: Path) -> None:
    untold = replace(GOOD, readings=replace(WELL, temperature_celsius=None))
    with State(tmp_path / "state.db") as state:
        for answers in (True, False, True):
            state.record_contact({"phone001": answers})
        keep(state, {"phone001": untold}, judge({"phone001": untold}, RACK))
        known = state.phones()["phone001"]
        assert known.health is not None
        assert (known.health.status, derive(known, time.time())) == ("WARN", "ready")
        assert "not told" in known.health.message


def test_open_mpi_of_another_version_beside_the_others_is_named() -> None:
    versions = {"phone001": "5.0.11", "phone002": "5.0.8", "phone003": "5.0.11"}
    facts = {
        name: replace(GOOD, name=name, address=RACK.phones[name].address, openmpi=version)
        for name, version in versions.items()
    }
    said = [
        line
        for line in folded(judge(with_common_versions(facts), RACK), "CRITICAL")
        if "Open MPI" in line
    ]
    assert said == [
        "phone002: has Open MPI 5.0.8, most phones have 5.0.11; "
        "install the rack's series with site.yml -t openmpi"
    ]


def test_a_python_that_does_not_run_is_named_with_its_last_words() -> None:
    answer = Result(127, stderr="x\nCANNOT LINK EXECUTABLE: libpython3.14.so\n")
    facts = read("phone001", "10.0.0.1", answer, (1.0, 2.0))
    assert statuses(facts)["interpreter"] == "CRITICAL"
    assert (
        facts.problem == "phone001: Python does not run: CANNOT LINK EXECUTABLE: libpython3.14.so"
    )


def test_phones_that_differ_are_folded_into_one_line() -> None:
    releases = {"phone001": "1.0", "phone002": "0.9", "phone003": "1.0"}
    facts = {
        name: replace(
            GOOD,
            name=name,
            address=RACK.phones[name].address,
            release=release,
            interfaces=None,
        )
        for name, release in releases.items()
    }
    outcomes = judge(with_common_versions(facts), RACK)
    assert folded(outcomes, "CRITICAL") == [
        "phone002: has release 0.9, most phones have 1.0; "
        "install one release with site.yml -t release"
    ]
    assert folded(outcomes, "UNKNOWN") == [
        "phone[001-003]: its interfaces cannot be read; "
        "check its DHCP reservation and the rack file"
    ]


def test_a_good_phone_with_an_exporter_passes_too() -> None:
    assert statuses(replace(GOOD, readings=WELL)) == {}


def test_an_exporter_that_is_silent_leaves_its_values_unknown_and_is_named() -> None:
    found = statuses(replace(GOOD, readings=Readings("its exporter has been silent for 90 s")))
    assert found.pop("exporter") == "WARN"
    assert set(found) >= {"temperature", "battery-health", "charge", "plugged"}
    assert set(found.values()) == {"UNKNOWN"}


def test_what_needs_an_import_is_spared_once_it_was_good(tmp_path: Path) -> None:
    """A Termux prefix with a Python that has no torch, and an mpirun that counts its starts."""
    prefix, home = tmp_path / "usr", tmp_path / "home"
    for folder in (prefix / "bin", prefix / "lib", home / "phonerack"):
        folder.mkdir(parents=True)
    mpirun, starts = prefix / "bin/mpirun", tmp_path / "starts"

    def install(version: str) -> None:
        mpirun.write_text(f"#!/bin/sh\necho x >>{starts}\necho mpirun '(Open MPI)' {version}\n")
        mpirun.chmod(0o755)

    def ask(*words: str) -> Any:
        program = PROBE.read_text().replace("/data/data/com.termux/files", str(tmp_path))
        command = [sys.executable, "-S", "-", *words]
        done = subprocess.run(command, input=program, text=True, capture_output=True, check=True)
        return json.loads(done.stdout)

    install("5.0.8")
    # Without the word it keeps nothing.
    assert [ask()["imports_spared"] for _ in range(2)] == [False, False]
    first, second = ask("stamp"), ask("stamp")
    assert (first["imports_spared"], second["imports_spared"]) == (False, True)
    assert first["openmpi"] == second["openmpi"] == "5.0.8"
    assert first["missing_modules"] == second["missing_modules"]
    assert starts.read_text().count("x") == 3
    # Anything that is replaced is tried again.
    install("5.0.11")
    assert ask("stamp")["openmpi"] == "5.0.11"
    (prefix / "lib/libmpi.so.40").write_text("another")
    assert ask("stamp")["imports_spared"] is False


def test_a_stamp_that_was_cut_off_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "home/phonerack").mkdir(parents=True)
    (tmp_path / "home/phonerack/preflight.stamp").write_bytes(b"\xff\x00abc")
    program = PROBE.read_text().replace("/data/data/com.termux/files", str(tmp_path))
    command = [sys.executable, "-S", "-", "stamp"]
    done = subprocess.run(command, input=program, text=True, capture_output=True, check=True)
    assert json.loads(done.stdout)["imports_spared"] is False


def test_the_probe_runs_where_nothing_of_a_phone_exists() -> None:
    """On this machine: no Termux prefix, so unknown stays unknown and is never zero."""
    done = subprocess.run(
        [sys.executable, "-S", "-"],
        input=PROBE.read_text(),
        text=True,
        capture_output=True,
        timeout=60,
    )
    facts = json.loads(done.stdout)
    assert facts["free_disk_bytes"] is None
    assert facts["manifest"] is None
    assert facts["openmpi"] is None
    assert facts["interfaces"]["127.0.0.1"] == "lo"
    assert facts["free_memory_bytes"] > 0
    assert facts["children"] > 1
    assert "torch" in facts["missing_modules"]
    answer = Result(0, stdout=done.stdout)
    read_back = read("phone001", "10.0.0.1", answer, (facts["clock"] - 1, facts["clock"] + 1))
    assert read_back.clock_skew_seconds == 0


def test_a_module_that_breaks_on_import_is_named_by_the_probe(tmp_path: Any) -> None:
    (tmp_path / "grp.py").write_text("raise ImportError('cannot locate symbol')")
    first = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport os\n"
    program = PROBE.read_text().replace("import os\n", first, 1)
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], text=True, capture_output=True, timeout=60
    )
    missing = json.loads(done.stdout)["missing_modules"]
    assert "cannot locate symbol" in missing["grp"]
