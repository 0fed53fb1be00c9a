"""What `fleetctl check` says of phones, keeps, and ends with."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fleetctl.checks import doors, phone
from fleetctl.checks import packages as package_checks
from fleetctl.checks.answer import PhoneFacts
from fleetctl.checks.packages import PackageFacts
from fleetctl.checks.readings import Readings
from fleetctl.cli.main import cli
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import Network, Rack
from fleetctl.rack.variables import phone_packages
from fleetctl.remote import Fault
from fleetctl.remote.faults import unreachable
from fleetctl.state import State, StateError, last_failed

RACK = """
rack: home
network: {cidr: 192.0.2.0/24, medium: wifi, dhcp: ours, controller: 192.0.2.1}
phones: [192.0.2.20-23]
"""
LOCK = """
rack: home
version: 1
phones:
  phone001: {serial: R58M0001}
  phone002: {serial: R58M0002}
  phone003: {serial: R58M0003}
"""
WELL = Readings(None, 30.0, 0.5, plugged=True, battery_health="good")
ALL_PACKAGES = {
    (spec.partition("=")[0], "all"): spec.partition("=")[2].rstrip("*") or "1"
    for spec in phone_packages(Rack("home", Network(IPv4Network("192.0.2.0/24"), "wifi"), {}))
}
NAMES = ("phone001", "phone002", "phone003")


def facts(name: str, **changes: Any) -> PhoneFacts:
    """A phone that a job may have, but for what is changed."""
    address = f"192.0.2.{19 + int(name[-3:])}"
    known = {each: f"192.0.2.{19 + int(each[-3:])}" for each in NAMES}
    well: dict[str, Any] = {
        "python": "3.13",
        "openmpi": "5.0.3",
        "common_openmpi": "5.0.3",
        "release": "0.1.0+1",
        "common_release": "0.1.0+1",
        "free_disk_bytes": 9 << 30,
        "free_temporary_bytes": 9 << 30,
        "free_memory_bytes": 3 << 30,
        "clock_skew_seconds": 0.0,
        "children": 4,
        "interfaces": {address: "wlan0"},
        "neighbours": known,
        "host_file": list(known.values()),
        "readings": WELL,
    }
    return PhoneFacts(name, address, **{**well, **changes})


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, PhoneFacts]:
    """What each phone of a rack of three tells, and a place without a phone."""
    found = {name: facts(name) for name in NAMES}
    file = tmp_path / "rack.yml"
    file.write_text(RACK)
    file.with_name("rack.lock.yml").write_text(LOCK)
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHONERACK_RACK", str(file))

    async def gather(_fleet: Any, _rack: Any, names: Any, **_: Any) -> dict[str, PhoneFacts]:
        return {name: found[name] for name in names}

    async def over_adb(*_: Any) -> dict[str, bool]:
        return {}

    monkeypatch.setattr(phone, "gather", gather)
    monkeypatch.setattr(doors, "over_adb", over_adb)
    return found


def check(*words: str) -> Result:
    return CliRunner().invoke(cli, ["check", *words], standalone_mode=False)


def code(done: Result) -> int:
    return int(getattr(done.exception, "exit_code", None) or done.return_value or done.exit_code)


def home(tmp_path: Path) -> Path:
    return tmp_path / "home/home"


def test_phones_that_are_well_can_take_a_job(told: dict[str, PhoneFacts]) -> None:
    done = check()
    assert code(done) == 0, done.output
    assert "OK       phone[001-003]" in done.stdout
    assert "3 of 3 phones can take a job" in done.stderr


def test_what_could_not_be_looked_at_is_said_and_no_phone_is_good_by_it(
    told: dict[str, PhoneFacts], tmp_path: Path
) -> None:
    told["phone002"] = facts("phone002", readings=Readings("its exporter has been silent for 90 s"))
    told["phone003"] = facts("phone003", readings=Readings(None, None, 0.5, None, "good"))
    done = check()
    assert code(done) == 3
    silent = [line for line in done.stdout.splitlines() if line.startswith("UNKNOWN  phone002")]
    assert len(silent) == 1, "one line for all that an exporter does not tell"
    assert "temperature, throttling, battery-health" in silent[0]
    assert "its exporter has been silent for 90 s" in silent[0]
    assert "UNKNOWN  phone003: its temperature is not told; let it cool down" in done.stdout
    assert "OK       phone001\n" in done.stdout
    assert "1 of 3 phones can take a job; phone[002-003]: not all is known" in done.stderr
    last = last_failed.read(home(tmp_path) / "last_failed.json")
    assert last is not None
    assert (last.command, last.phones) == ("check", ("phone002", "phone003"))
    good = {each["name"]: each["good"] for each in json.loads(check("-o", "json").stdout)["phones"]}
    assert good == {"phone001": True, "phone002": False, "phone003": False}


def test_a_phone_that_has_no_exporter_is_good(told: dict[str, PhoneFacts]) -> None:
    told["phone002"] = facts("phone002", readings=None)
    done = check("phone002")
    assert (code(done), "UNKNOWN" in done.stdout) == (0, False)


def test_a_phone_is_held_against_others_for_its_release_though_it_is_checked_alone(
    told: dict[str, PhoneFacts], monkeypatch: pytest.MonkeyPatch
) -> None:
    told["phone003"] = facts("phone003", release="0.0.9+1", neighbours={"phone003": "192.0.2.22"})

    async def gather(_fleet: Any, _rack: Any, names: Any, **_: Any) -> dict[str, PhoneFacts]:
        return phone.with_common_versions({name: told[name] for name in names})

    monkeypatch.setattr(phone, "gather", gather)
    done = check("phone003")
    assert code(done) == 3
    assert "CRITICAL phone003: has release 0.0.9+1, most phones have 0.1.0+1" in done.stdout
    # It shall not train with those, so that it does not know them is no reason to refuse it.
    assert "WARN     phone003: it does not know phone[001-002]" in done.stdout
    assert "0 of 1 phones" in done.stderr


def test_a_night_with_a_dead_switch_and_no_fan_is_told_in_two_lines(
    told: dict[str, PhoneFacts],
) -> None:
    for name, celsius in (("phone001", 46.0), ("phone002", 51.0), ("phone003", 49.0)):
        told[name] = facts(name, readings=replace(WELL, temperature_celsius=celsius))
    hot = check().stdout.splitlines()
    assert len(hot) == 1
    assert hot[0].startswith(
        "CRITICAL phone[001-003]: its battery has 46 to 51 °C, the limit is 45 °C; let it cool"
    )
    for name, found in told.items():
        why = str(unreachable(name, found.address, "no route"))
        told[name] = facts(name, reached=False, answered=False, problem=why)
    gone = check().stdout.splitlines()
    assert len(gone) == 1
    assert gone[0].startswith("CRITICAL phone[001-003] is unreachable: no route")


def test_phones_that_failed_are_the_last_failed(
    told: dict[str, PhoneFacts], tmp_path: Path
) -> None:
    told["phone003"] = facts("phone003", free_disk_bytes=0)
    assert code(check()) == 3
    last = last_failed.read(home(tmp_path) / "last_failed.json")
    assert last is not None
    assert last.phones == ("phone003",)


def test_an_empty_place_is_no_phone_to_be_checked(told: dict[str, PhoneFacts]) -> None:
    done = check("phone004")
    assert code(done) == 2
    assert "phone004: no phone is enrolled there" in str(done.exception)
    assert "phone004: no phone is enrolled there, left out" in check("phone[003-004]").stderr


def test_a_check_of_phones_that_are_all_at_work_is_held_by_their_runs(
    told: dict[str, PhoneFacts], tmp_path: Path
) -> None:
    run = home(tmp_path) / "runs/digits-1"
    run.mkdir(parents=True)
    RunFolder(run).record("created", phones=["phone001"])
    with State(home(tmp_path) / "state.db") as state:
        state.allocate("digits-1", ["phone001"])
    done = check("phone001", "--level", "2")
    assert code(done) == 5
    assert "phone001 by run digits-1" in str(done.exception)


# --- packages -------------------------------------------------------------------------------------


@pytest.fixture
def packages(told: dict[str, PhoneFacts], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whom `check packages` asks; phone003 does not answer."""
    asked: list[str] = []

    async def gather(_fleet: Any, names: list[str], _snapshot: Any) -> dict[str, PackageFacts]:
        asked.extend(names)
        away = PackageFacts("phone003", "phone003 is away", reached=False, answered=False)
        return {
            name: away if name == "phone003" else PackageFacts(name, versions=ALL_PACKAGES)
            for name in names
        }

    monkeypatch.setattr(package_checks, "gather", gather)
    return asked


def test_packages_of_empty_places_are_not_asked_for(packages: list[str], tmp_path: Path) -> None:
    assert code(check("packages")) == 3
    assert packages == list(NAMES)
    assert code(check("packages", "phone004")) == 2
    last = last_failed.read(home(tmp_path) / "last_failed.json")
    assert last is not None
    assert (last.command, last.phones) == ("check packages", ("phone003",))


def test_what_is_known_of_packages_is_said_though_the_state_is_full(
    packages: list[str], full: None
) -> None:
    done = check("packages")
    assert code(done) == 1
    assert "phone003 is away" in done.stdout


# --- the state cannot be used --------------------------------------------------------------------


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state can be read, and nothing be written to it."""

    def refuse(*_: Any, **__: Any) -> None:
        raise StateError("state.db: its disk is full: free some space and do it again")

    for name in ("record_contact", "record_revocations", "record_healths", "record_adb", "release"):
        monkeypatch.setattr(State, name, refuse)


@pytest.fixture
def damaged(told: dict[str, PhoneFacts], tmp_path: Path) -> None:
    home(tmp_path).mkdir(parents=True)
    (home(tmp_path) / "state.db").write_bytes(b"no database" * 1000)


@pytest.mark.parametrize("trouble", ["full", "damaged"])
def test_what_was_found_is_said_and_packed_though_it_cannot_be_kept(
    told: dict[str, PhoneFacts], trouble: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    request.getfixturevalue(trouble)
    told["phone002"] = facts("phone002", free_disk_bytes=0)
    told["phone003"] = facts("phone003", reached=False, answered=False, problem="it is away",
                             fault=Fault.LOST)  # fmt: skip
    done = check("--bundle", str(tmp_path / "help.tar.gz"))
    assert code(done) == 1
    assert "not kept" in str(done.exception)
    assert "CRITICAL phone002: free disk is 0 MiB" in done.stdout
    assert "OK       phone001" in done.stdout
    with tarfile.open(tmp_path / "help.tar.gz") as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers()}
    assert {"checks.json", "state.json"} <= names


def test_a_state_that_cannot_be_read_makes_nobody_s_processes_strays(
    told: dict[str, PhoneFacts], damaged: None
) -> None:
    told["phone001"] = facts("phone001", strays={"digits-1": (7,)}, revocations=3)
    done = check("phone001")
    assert code(done) == 1
    assert "left over" not in done.stdout
    assert "old copy" not in done.stdout


def test_phones_cannot_be_held_for_a_deep_look_by_a_state_that_cannot_be_used(
    told: dict[str, PhoneFacts], damaged: None
) -> None:
    done = check("phone001", "--level", "2")
    assert isinstance(done.exception, StateError)
    assert "phone001" not in done.stdout
