"""`fleetctl power --outlet`: only what the phone itself says counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fleetctl.cli import power
from fleetctl.cli.main import cli
from fleetctl.power.outlets import Fed
from fleetctl.state import State

RACK = f"""rack: home
network: {{cidr: 192.0.2.0/24, medium: wifi}}
phones: [192.0.2.20-22]
power: {{command: [{sys.executable}, "{{phone}}", "{{state}}"]}}
"""


@pytest.fixture
def _rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    rack = tmp_path / "rack.yml"
    rack.write_text(RACK)
    monkeypatch.setenv("PHONERACK_RACK", str(rack))


def fleetctl(monkeypatch: pytest.MonkeyPatch, said: list[Fed], *words: str) -> Any:
    """The command with these answers of phones."""

    async def switched(*_: Any) -> list[Fed]:
        return said

    monkeypatch.setattr(power, "_switch_outlets", switched)
    return CliRunner().invoke(cli, words, standalone_mode=False)


DONE = Fed("phone001", "1", False, "done", "off")
LIED = Fed("phone002", "2", True, "power not cut", "outlet 2 is off")
SILENT = Fed("phone003", "3", None, "unverified", "off", "phone003 stopped answering")


@pytest.mark.usefixtures("_rack")
@pytest.mark.parametrize(
    ("said", "code"),
    [([DONE], 0), ([DONE, LIED], 3), ([LIED], 1), ([SILENT], 1), ([Fed("phone001", "1", True)], 0)],
)
def test_a_hub_that_lies_is_no_success(
    monkeypatch: pytest.MonkeyPatch, said: list[Fed], code: int
) -> None:
    result = fleetctl(monkeypatch, said, "power", "phone001", "--outlet", "off", "-o", "json")
    assert result.return_value == code
    document = json.loads(result.stdout)
    assert [each["verdict"] for each in document["outlets"]] == [each.verdict for each in said]


@pytest.mark.usefixtures("_rack")
def test_what_went_wrong_is_said_with_the_phone_and_the_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = fleetctl(monkeypatch, [LIED, SILENT], "power", "@phones", "--outlet", "off")
    assert "phone002: power not cut: the phone still charges" in result.stderr
    assert "phone003: unverified: phone003 stopped answering" in result.stderr
    assert "outlet 2 is off" in result.stdout
    again = fleetctl(monkeypatch, [DONE], "power", "@last-failed", "--outlet", "show")
    assert again.exception is None


@pytest.mark.usefixtures("_rack")
def test_without_managed_switches_outlets_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    result = fleetctl(monkeypatch, [Fed("phone001", "1", True)], "power", "phone001")
    assert result.return_value == 0
    assert "PLUGGED" in result.stdout


@pytest.mark.usefixtures("_rack")
def test_outlet_and_port_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    result = fleetctl(monkeypatch, [], "power", "phone001", "--outlet", "on", "--port", "on")
    assert result.exception.exit_code == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_a_cycle_the_power_is_on_again(
    tmp_path: Path, number: signal.Signals
) -> None:
    rack, hub = tmp_path / "rack.yml", tmp_path / "hub"
    command = f"[sh, -c, 'echo $0 >>{hub}', '{{state}}', '{{phone}}']"
    rack.write_text(
        "rack: home\nnetwork: {cidr: 127.9.0.0/24, medium: wifi}\nphones: [127.9.0.20]\n"
        f"power: {{command: {command}}}\n"
    )
    home = {"PHONERACK_HOME": str(tmp_path / "home"), "PHONERACK_RACK": str(rack)}
    words = [Path(sys.executable).with_name("fleetctl"), "power", "phone001", "--outlet", "cycle"]
    running = subprocess.Popen(words, env=os.environ | home, stderr=subprocess.DEVNULL)
    while not hub.exists() and running.poll() is None:
        time.sleep(0.05)
    running.send_signal(number)
    assert running.wait(60) == 130
    assert hub.read_text().split() == ["off", "on"]
    with State(tmp_path / "home/home/state.db") as state:
        assert state.groups()["drained"] == []
