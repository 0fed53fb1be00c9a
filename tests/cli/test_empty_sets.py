"""A node set that no phone is in is bad input to every command that takes node sets."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from test_contract import leaves

from fleetctl.cli.common import App
from fleetctl.cli.main import cli
from fleetctl.errors import ExitCode
from fleetctl.state import State

RACK = "rack: home\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-22]\n"

BESIDE = {
    "exec": ["--", "true"],
    "drain": ["--why", "old"],
    "power": ["--outlet", "off"],
    "bench compute": ["--models", "digits-cnn", "--image", "1x8x8"],
    "bench scaling": ["--models", "digits-cnn", "--image", "1x8x8"],
    "data check": ["digits"],
    "data remove": ["digits"],
    "plan": ["job.yml"],
}
"""What a command wants beside NODES."""


def takers() -> list[str]:
    """The commands with node sets among their arguments."""
    found = []
    for name, command in leaves():
        words = [each.metavar or "" for each in command.params if isinstance(each, click.Argument)]
        if any("NODES" in each for each in words) and not name.startswith("standin"):
            found.append(name.replace("provision site", "provision"))
    return [*found, "check"]


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    file = tmp_path / "rack.yml"
    file.write_text(RACK)
    monkeypatch.setenv("PHONERACK_RACK", str(file))
    return file


@pytest.mark.parametrize("command", takers())
def test_an_empty_set_is_bad_input(rack: Path, command: str) -> None:
    beside = BESIDE.get(command, [])
    options = any(word.startswith("-") for word in beside)
    words = ["@drained", *beside] if options else [*beside, "@drained"]
    done = CliRunner().invoke(cli, [*command.split(), *words])
    assert done.exit_code == ExitCode.BAD_INPUT, done.output
    assert "@drained is an empty node set: no phone is in it now." in done.output


def test_a_set_with_somebody_in_it_is_not(rack: Path) -> None:
    (rack.parent / "home/home").mkdir(parents=True)
    with State(rack.parent / "home/home/state.db") as state:
        state.drain(["phone002"], "ada", "screen broken")
    done = CliRunner().invoke(cli, ["status", "@drained", "-o", "json"])
    assert done.exit_code == ExitCode.NONE_REACHABLE
    assert '"phone002"' in done.output


@pytest.mark.parametrize(
    ("node_set", "phones"),
    [
        ("@ready", ["phone001"]),
        ("@busy", ["phone002"]),
        ("@drained", ["phone002"]),
        ("@suspect", ["phone003"]),
        ("@phones!@ready", ["phone002", "phone003"]),
        ("@last-failed", ["phone003"]),
    ],
)
def test_a_set_by_state_has_the_racks_own_phones_of_that_state(
    rack: Path, node_set: str, phones: list[str]
) -> None:
    """One is ready, one is busy and will be drained, of one nothing is known; two that have left
    the rack file are remembered."""
    app = App(str(rack))
    with app.state as state:
        state.record_contact(dict.fromkeys(["phone001", "phone002", "phone007"], True))
        state.allocate("digits-1", ["phone002", "phone007"])
        state.drain(["phone002", "phone008"], "ada", "screen broken")
        app.note_failed("exec", ["phone003", "phone008"])
        assert app.select([node_set]) == phones
