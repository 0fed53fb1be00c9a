"""What `fleetctl exec` shows, refuses, and ends with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fleetctl.cli import exec_view, identify
from fleetctl.cli.main import cli
from fleetctl.remote import faults
from fleetctl.remote.execute import Executed
from fleetctl.state import last_failed

RACK = "rack: home\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-25]\n"


@pytest.fixture
def rack_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    file = tmp_path / "rack.yml"
    file.write_text(RACK)
    return file


def run(rack_file: Path, *words: str) -> Any:
    return CliRunner().invoke(cli, ["--rack", str(rack_file), *words], standalone_mode=False)


def said(text: str, code: int = 0) -> Executed:
    return Executed(code, text, reached=True)


def test_equal_output_is_shown_once_for_all_phones_that_said_it() -> None:
    outcomes = {f"phone{n:03}": said("Linux 5.4\n") for n in range(1, 7)}
    outcomes["phone003"] = said("Linux 4.14")
    assert exec_view.output_blocks(outcomes) == [
        "phone[001-002,004-006] (5):\nLinux 5.4\n",
        "phone003 (1):\nLinux 4.14\n",
    ]


def test_what_went_wrong_is_said_once_for_all() -> None:
    outcomes = {
        "phone001": said(""),
        "phone002": said("", 2),
        "phone003": said("", 2),
        "phone004": said("", 127),
        "phone005": Executed(error=faults.unreachable("phone005", "10.0.0.5", "no answer in time")),
        "phone006": Executed(error=faults.unreachable("phone006", "10.0.0.6", "no answer in time")),
        "phone007": Executed(interrupted=True, reached=True, cleared=False),
    }
    lines = exec_view.remarks(outcomes, "iperf3 -s")
    assert "phone[002-003]: exit code 2" in lines
    assert any(line.startswith("phone004: exit code 127: it lacks a command") for line in lines)
    assert any(line.startswith("phone[005-006] is unreachable: no answer") for line in lines)
    assert any(line.startswith("phone007: the command may still be running") for line in lines)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([said("a"), said("b")], 0),
        ([said("a"), said("", 1)], 3),
        ([said("", 1), said("", 1)], 3),
        ([said("a"), Executed(error=faults.refused("p", "a"))], 3),
        ([Executed(error=faults.refused("p", "a"))], 4),
        ([Executed(error=faults.throttled("p", "a"))], 3),
        ([said("a"), Executed(interrupted=True)], 130),
    ],
)
def test_one_exit_code_for_all_phones(outcomes: list[Executed], code: int) -> None:
    assert exec_view.exit_code({f"p{n}": each for n, each in enumerate(outcomes)}) == code


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["exec", "phone001"], "behind --"),
        (["exec", "phone001", "--"], "behind --"),
        (["exec", "--", "uptime"], "Name the phones"),
        (["exec", "phone001", "--stream", "-o", "json", "--", "uptime"], "without -o json"),
        (["exec", "phone001", "--no-prefix", "--", "uptime"], "--stream only"),
        (["exec", "@drained", "--", "uptime"], "empty node set"),
    ],
)
def test_what_makes_no_sense_is_refused(rack_file: Path, words: list[str], complaint: str) -> None:
    result = run(rack_file, *words)
    assert complaint in str(result.exception.message)
    assert result.exception.exit_code == 2


def test_a_group_or_a_phone_that_is_not_there_is_refused(rack_file: Path) -> None:
    for nodes, complaint in (("phone099", "no phone phone099"), ("@nobody", "no group `@nobody`")):
        problem = run(rack_file, "exec", nodes, "--", "uptime").exception
        assert complaint in str(problem)
        assert problem.exit_code == 2


def test_phones_that_failed_are_a_node_set_for_every_command(rack_file: Path) -> None:
    # Nobody is enrolled, so nobody is reached.
    result = run(rack_file, "exec", "phone[002-003]", "-o", "json", "--", "ls", "-l")
    document = json.loads(result.stdout)
    assert result.return_value == 4
    assert document["schema"] == 1
    assert document["command"] == "ls -l"
    assert document["failed"] == ["phone002", "phone003"]

    assert run(rack_file, "drain", "@last-failed", "--why", "odd").exception is None
    shown = json.loads(run(rack_file, "status", "@drained", "-o", "json").stdout)
    assert [phone["name"] for phone in shown["phones"]] == ["phone002", "phone003"]


def test_a_phone_that_left_the_rack_file_is_no_trouble_to_last_failed(
    rack_file: Path, tmp_path: Path
) -> None:
    run(rack_file, "status")
    last_failed.keep(tmp_path / "home/home/last_failed.json", "exec x", ["phone001", "phone077"])
    result = run(rack_file, "drain", "@last-failed", "--why", "odd")
    assert result.exception is None


def test_last_failed_stays_when_nobody_fails_and_survives_damage(tmp_path: Path) -> None:
    path = tmp_path / "last_failed.json"
    assert last_failed.read(path) is None
    last_failed.keep(path, "exec a", ["p1"], now=5.0)
    last_failed.keep(path, "exec b", [])
    assert last_failed.read(path) == last_failed.LastFailed("exec a", ("p1",), 5.0)
    path.write_text("{")
    assert last_failed.read(path) is None


def test_identify_explains_why_a_phone_does_not_show_itself() -> None:
    assert identify.problem("p", Executed(0, reached=True)) is None
    assert "open it once" in str(identify.problem("p", Executed(124, reached=True)))
    assert "site.yml -t termux" in str(identify.problem("p", Executed(127, reached=True)))
    assert identify.problem("p", Executed(1, stderr="a\nno torch\n", reached=True)) == (
        "p: exit code 1: no torch"
    )
