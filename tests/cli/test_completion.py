"""What TAB offers, asked as shells ask it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from fleetctl.cli import main
from fleetctl.cli.completion import split_node_set

RACK = """\
rack: home
network: {cidr: 192.0.2.0/24, medium: ethernet}
switches: {sw1: {platform: cisco_ios, address: 192.0.2.3}, shelf: {ports: 8}}
phones: [192.0.2.20-22]
"""
FLEETCTL = Path(sys.executable).with_name("fleetctl")


@pytest.fixture
def _rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rack = tmp_path / "rack.yml"
    rack.write_text(RACK)
    run = tmp_path / "home/home/runs/digits-7"
    run.mkdir(parents=True)
    (run / "events.jsonl").write_text('{"time": 1, "kind": "created", "phones": []}\n')
    (tmp_path / "home/home/data/flowers").mkdir(parents=True)
    (tmp_path / "home/home/data/.flowers.gone").mkdir()
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHONERACK_RACK", str(rack))
    words = ["launch", "--queue", "--name", "waits", "-n", "1", "--", "true"]
    assert CliRunner().invoke(main.cli, words).exit_code == 0


def offered(line: str) -> set[str]:
    """What is offered for the last word of a line."""
    *words, last = line.split(" ")
    shell = BashComplete(main.cli, {}, "fleetctl", "_FLEETCTL_COMPLETE")
    return {found.value for found in shell.get_completions(words[1:], last)}


@pytest.mark.usefixtures("_rack")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fleetctl ide", {"identify"}),
        ("fleetctl status phone00", {"phone001", "phone002", "phone003"}),
        ("fleetctl drain phone001,@dr", {"phone001,@drained"}),
        ("fleetctl exec @last", {"@last-failed"}),
        ("fleetctl logs di", {"digits-7"}),
        ("fleetctl report di", {"digits-7"}),
        ("fleetctl provision ver", {"verify"}),
        ("fleetctl provision sw", {"switches"}),
        ("fleetctl provision phones -l phone003", {"phone003"}),
        ("fleetctl --rack /nowhere.yml status ph", set()),
        ("fleetctl stop wa", {"waits-1"}),
        ("fleetctl launch --resume di", {"digits-7"}),
        ("fleetctl launch --phones @re", {"@ready"}),
        ("fleetctl data check fl", {"flowers"}),
        ("fleetctl data remove fl", {"flowers"}),
        ("fleetctl guard clear phone002", {"phone002"}),
        ("fleetctl provision switches s", {"sw1"}),
        ("fleetctl standin fault phone003", {"phone003"}),
        ("fleetctl enroll --replace phone003", {"phone003"}),
        ("fleetctl check ca", {"cables"}),
        ("fleetctl check phone003", {"phone003"}),
        ("fleetctl check packages phone003", {"phone003"}),
    ],
)
def test_names_groups_and_runs_complete(line: str, expected: set[str]) -> None:
    assert offered(line) == expected


@pytest.mark.parametrize("line", ["fleetctl launch jo", "fleetctl --rack inv", "fleetctl plan jo"])
def test_files_are_left_to_the_shell(line: str) -> None:
    *words, last = line.split(" ")
    shell = BashComplete(main.cli, {}, "fleetctl", "_FLEETCTL_COMPLETE")
    (found,) = shell.get_completions(words[1:], last)
    assert (found.type, found.value) == ("file", last)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(shell: str) -> None:
    asked = os.environ | {"_FLEETCTL_COMPLETE": f"{shell}_source"}
    done = subprocess.run([FLEETCTL], env=asked, capture_output=True, text=True, check=True)
    assert "_FLEETCTL_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("", "")),
        ("pho", ("", "pho")),
        ("phone[001-003],@s", ("phone[001-003],", "@s")),
        ("phone[001,00", ("", "phone[001,00")),
        ("@phones!@dr", ("@phones!", "@dr")),
    ],
)
def test_only_the_last_name_of_a_node_set_is_completed(text: str, parts: tuple[str, str]) -> None:
    assert split_node_set(text) == parts
