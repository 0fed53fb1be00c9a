"""What TAB offers, asked as shells ask it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from fleetctl.cli import main
from fleetctl.cli.completion import split_node_set

RACK = "rack: home\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-22]\n"
FLEETCTL = Path(sys.executable).with_name("fleetctl")


@pytest.fixture
def _rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rack = tmp_path / "rack.yml"
    rack.write_text(RACK)
    run = tmp_path / "home/home/runs/digits-7"
    run.mkdir(parents=True)
    (run / "events.jsonl").write_text('{"time": 1, "kind": "created", "phones": []}\n')
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHONERACK_RACK", str(rack))


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
    ],
)
def test_names_groups_and_runs_complete(line: str, expected: set[str]) -> None:
    assert offered(line) == expected


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
