"""status, drain, undrain and check as a person calls them, on a rack that nobody has enrolled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fleetctl.cli.main import cli
from fleetctl.rack import RackError, RackPaths
from fleetctl.state import State

RACK = "rack: home\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-22]\n"


@pytest.fixture
def rack_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    path = tmp_path / "rack.yml"
    path.write_text(RACK)
    monkeypatch.setenv("PHONERACK_RACK", str(path))
    return path


def fleetctl(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def states(*nodes: str) -> dict[str, Any]:
    document = json.loads(fleetctl("status", "-o", "json", *nodes).stdout)
    assert document["schema"] == 1
    return {phone["name"]: phone["state"] for phone in document["phones"]}


def test_a_drained_phone_shows_and_leaves_node_sets(rack_file: Path) -> None:
    assert fleetctl("drain", "phone002", "--why", "screen broken").exit_code == 0
    assert states()["phone002"] == "drained"
    assert list(states("@phones!@drained")) == ["phone001", "phone003"]
    assert fleetctl("undrain", "@drained").exit_code == 0
    assert states()["phone002"] == "suspect"


def test_programs_are_told_what_keeps_a_phone_out(rack_file: Path) -> None:
    fleetctl("drain", "phone002", "--why", "screen broken")
    said = fleetctl("drain", "phone[002-003]", "--why", "moved", "--until", "2d", "-o", "json")
    drained = {phone["name"]: phone["drains"] for phone in json.loads(said.stdout)["phones"]}
    assert list(drained) == ["phone002", "phone003"]
    assert [drain["why"] for drain in drained["phone003"]] == ["moved"]
    assert drained["phone003"][0]["until"] is not None
    said = fleetctl("undrain", "@drained", "-o", "json")
    assert json.loads(said.stdout)["phones"] == [
        {"name": "phone002", "drains": []},
        {"name": "phone003", "drains": []},
    ]


def test_undrain_says_whose_drains_it_lifted(rack_file: Path) -> None:
    for name in ("phone001", "phone002"):
        fleetctl("drain", name, "--why", f"{name} is hot")
    with State(RackPaths("home").state_db) as state:
        state.drain(["phone002"], who="outlet-off", why="sam switched it off", origin="check")
    said = fleetctl("undrain", "phone[001-003]").stderr.splitlines()
    (first,) = [line for line in said if "is hot" in line]
    assert first.startswith("phone[001-002]: lifted the drain by ")
    assert "phone002: lifted the drain by check outlet-off (sam switched it off)" in said
    assert (
        "phone002: its outlet is as it was: `fleetctl power phone002 --outlet on` gives it back"
        in said
    )
    assert "phone003: was not drained" in said


def test_status_without_any_answer_ends_with_four(rack_file: Path) -> None:
    done = fleetctl("status")
    assert done.exit_code == 4
    assert "phone[001-003] has no host key in" in " ".join(done.stdout.split())


def test_nobody_is_lost_before_enrolment(rack_file: Path) -> None:
    assert set(states().values()) == {"suspect"}


@pytest.mark.parametrize("command", ["status", "drain --why x", "undrain"])
def test_unknown_phones_are_refused(rack_file: Path, command: str) -> None:
    done = fleetctl(*command.split(), "phone004")
    assert isinstance(done.exception, RackError)
    assert "no phone phone004 in this rack" in str(done.exception)


@pytest.mark.parametrize("arguments", [(), ("@drained",)])
def test_drain_wants_phones(rack_file: Path, arguments: tuple[str, ...]) -> None:
    assert fleetctl("drain", "--why", "x", *arguments).exit_code == 2
    assert set(states().values()) == {"suspect"}


def test_check_rack_lists_mistakes_for_programs_too(rack_file: Path) -> None:
    rack_file.write_text(RACK.replace("medium", "mediun"))
    done = fleetctl("check", "rack", "-o", "json")
    assert isinstance(done.exception, RackError)
    first = json.loads(done.stdout)["mistakes"][0]
    assert (first["line"], first["what"]) == (2, "`medium` is missing")


def test_check_rack_shows_warnings(rack_file: Path) -> None:
    rack_file.write_text(RACK.replace("20-22", "20-49"))
    done = fleetctl("check", "rack")
    assert done.exit_code == 0
    assert "30 phones on Wi-Fi share its air time" in done.stdout
    assert "not enrolled: phone[001-030]" in done.stdout


def test_check_without_any_answer_ends_with_four_and_says_why(rack_file: Path) -> None:
    done = fleetctl("check")
    assert done.exit_code == 4
    assert "CRITICAL phone[001-003] has no host key in" in " ".join(done.stdout.split())
    found = json.loads(fleetctl("check", "phone002", "-o", "json").stdout)["phones"]
    assert [phone["name"] for phone in found] == ["phone002"]
    statuses = {one["name"]: one["status"] for one in found[0]["checks"]}
    assert {name for name in statuses if statuses[name] == "CRITICAL"} == {"host-key"}


def test_check_knows_node_sets_from_commands(rack_file: Path) -> None:
    assert "no phone racks in this rack" in str(fleetctl("check", "racks").exception)
    assert fleetctl("check", "rack").exit_code == 0
    assert "[NODES | COMMAND]" in fleetctl("check", "--help").stdout
