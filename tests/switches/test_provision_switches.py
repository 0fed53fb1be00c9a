"""`fleetctl provision switches`: candidate, change, backups, restore; no secret is shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import COMMUNITY, PASSWORD
from processes import watching_processes

from standin.switches.device import Device, RunningClock

type Make = Callable[..., Any]

BIN = Path(sys.executable).parent
VAULT_PASSWORD = "Vault-Pa55word"
SECRETS = (PASSWORD, COMMUNITY, VAULT_PASSWORD)
RACK = """\
rack: lab
network:
  cidr: 127.0.0.0/8
  medium: ethernet
  controller: 127.0.0.9
  vlan: 10
  snmp: {community: snmp_community}
switches:
  sw1: {platform: PLATFORM, address: 127.0.0.1, ports: 9, uplinks: {router: 9}, reserved: 6}
phones:
  - {names: phone001, switch: sw1, ports: 1, addresses: 127.7.7.7}
"""


class Desk:
    """A rack file, a switch that it manages, and nothing in the environment but what is given."""

    def __init__(self, rig: Any, folder: Path) -> None:
        self.rig, self.folder = rig, folder
        self.file = folder / "rack/rack.yml"
        self.file.parent.mkdir()
        self.file.write_text(RACK.replace("PLATFORM", rig.rack.switches["sw1"].platform))
        home = rig.make_home(folder)
        self.env = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
            "PHONERACK_HOME": str(home),
            "PHONERACK_RACK": str(self.file),
            "COLUMNS": "200",
        }
        self.secrets = {"SWITCH_PASSWORD": PASSWORD, "SNMP_COMMUNITY": COMMUNITY}

    def run(
        self, *command: str, code: int = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        port = str(self.rig.targets["sw1"].port)
        done = subprocess.run(
            [BIN / "fleetctl", *command[:2], "--port", port, *command[2:]],
            env=self.env | (self.secrets if env is None else env),
            text=True,
            capture_output=True,
            timeout=300,
        )
        assert done.returncode == code, done.stdout + done.stderr
        for secret in SECRETS:
            assert secret not in done.stdout + done.stderr
        return done

    def started(self, *command: str) -> subprocess.Popen[str]:
        port = str(self.rig.targets["sw1"].port)
        return subprocess.Popen(
            [BIN / "fleetctl", *command[:2], "--port", port, *command[2:]],
            env=self.env | self.secrets,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def switches(self, *options: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.run("provision", "switches", *options, **more)

    def backups(self) -> list[Path]:
        return sorted((self.folder / "home/lab/switches/sw1").glob("*.cfg"))

    def seal(self) -> Path:
        """Put the secrets into a vault beside the rack file; the file with its password."""
        password = self.folder / "vault-password"
        password.write_text(f"{VAULT_PASSWORD}\n")
        password.chmod(0o600)
        variables = self.file.parent / "group_vars/all.yml"
        variables.parent.mkdir()
        variables.write_text(f"switch_password: {PASSWORD}\nsnmp_community: {COMMUNITY}\n")
        subprocess.run(
            [BIN / "ansible-vault", "encrypt", "--vault-password-file", password, variables],
            check=True,
            capture_output=True,
        )
        return password


@pytest.fixture
def desk(lab: Make, tmp_path: Path) -> Callable[..., Desk]:
    return lambda platform="arista_eos", **knobs: Desk(lab(platform, **knobs), tmp_path)


def test_the_candidate_is_shown_and_nothing_changes(desk: Callable[..., Desk]) -> None:
    here = desk("cisco_ios")
    before = here.rig.settings()
    shown = here.switches("-C", "-D").stdout
    assert "+ description phone001" in shown
    assert "+snmp-server community <snmp_community> RO phonerack-snmp" in shown
    assert "would change" in shown
    assert here.rig.settings() == before
    document = json.loads(here.switches("-C", "-o", "json").stdout)
    assert "description phone001" in document["switches"]["sw1"]["commands"]
    assert here.backups() == []


def test_a_change_its_backups_and_the_way_back(desk: Callable[..., Desk]) -> None:
    here = desk()
    factory = here.rig.settings()
    assert "changed" in here.switches().stdout
    assert list(here.rig.settings().snmp_communities) == [COMMUNITY]
    assert "unchanged" in here.switches().stdout
    assert len(here.backups()) == 2
    listed = json.loads(here.switches("--backups", "-o", "json").stdout)["backups"]["sw1"]
    assert listed == [str(path) for path in reversed(here.backups())]
    oldest = here.backups()[0].stem
    assert oldest in here.switches("--backups").stdout
    assert "would change" in here.switches("sw1", "-C", "--restore", oldest).stdout
    here.switches("sw1", "--restore", oldest)
    now = here.rig.settings()
    assert now.interfaces == factory.interfaces
    assert now.hostname == factory.hostname
    assert here.rig.startup() == now


def test_a_line_that_is_rejected_ends_with_one_and_names_it(desk: Callable[..., Desk]) -> None:
    here = desk(reject="description phone001")
    before = here.rig.settings()
    done = here.switches(code=1)
    assert "sw1: port 1 (Ethernet1, phone001): it rejected" in done.stderr
    assert "failed" in done.stdout
    assert here.rig.settings() == before


@pytest.mark.parametrize(
    "platform", ["cisco_ios", pytest.param("arista_eos", marks=pytest.mark.soak)]
)
def test_ctrl_c_in_the_middle_of_a_change_brings_the_old_configuration_back(
    desk: Callable[..., Desk], platform: str
) -> None:
    here = desk(platform)
    rig = here.rig
    rig.settle()
    # In this test its timers are no faster than the program's.
    rig.look(lambda device: setattr(device, "clock", RunningClock().now))
    rig.look(lambda device: setattr(device.knobs, "latency_seconds", 0.1))
    old = rig.settings()

    def in_the_middle(device: Device) -> bool:
        begun = [device.running, *(session.settings for session in device.sessions.values())]
        return any(settings != old for settings in begun)

    with here.started("provision", "switches") as process:
        while process.poll() is None and not rig.look(in_the_middle):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert "takes it back" in err
    assert rig.settings() == old == rig.startup()
    assert rig.look(lambda device: (device.revert, device.reload_at, device.sessions)) == (
        *(None, None),
        {},
    )
    rig.look(lambda device: setattr(device.knobs, "latency_seconds", 0.0))
    assert "changed" in here.switches().stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("sw9",), "no switch sw9 in this rack"),
        (("--restore", "2020-01-01"), "Name the one switch"),
        (("sw1", "--restore", "2020-01-01"), "no backup 2020-01-01 of sw1"),
    ],
)
def test_bad_input_is_refused_before_anybody_logs_in(
    desk: Callable[..., Desk], options: tuple[str, ...], told: str
) -> None:
    here = desk()
    assert told in here.switches(*options, code=2).stderr
    assert here.rig.look(lambda device: device.lines_entered) == 0


# --- secrets --------------------------------------------------------------------------------------


def test_secrets_come_from_the_vault(desk: Callable[..., Desk]) -> None:
    here = desk()
    password = str(here.seal())
    done = here.switches(code=2, env={})
    assert "--vault-password-file" in done.stderr
    here.switches("--vault-password-file", password, env={})
    assert list(here.rig.settings().snmp_communities) == [COMMUNITY]
    hosts = here.rig.network.hosts
    hosts["02:00:5e:10:00:01"] = hosts.pop("phone001")
    for name in [name for name in hosts if name.startswith("phone")]:
        del hosts[name]
    cables = here.run(
        *("check", "cables", "-o", "json"), code=3, env={"ANSIBLE_VAULT_PASSWORD_FILE": password}
    )
    assert json.loads(cables.stdout)["problems"] == {}


def test_no_process_ever_has_a_secret_in_its_arguments(desk: Callable[..., Desk]) -> None:
    here = desk()
    with watching_processes() as seen:
        here.switches("--vault-password-file", str(here.seal()), env={})
    ours = [words for words in seen if "provision" in words and "switches" in words]
    assert ours, "the command itself was seen"
    for secret in SECRETS:
        assert not [words for words in seen if secret in words]


def test_no_file_that_a_run_leaves_holds_a_secret_or_is_open_to_others(
    desk: Callable[..., Desk],
) -> None:
    here = desk()
    here.switches("-D")
    here.switches()
    home = here.folder / "home"
    files = [path for path in home.rglob("*") if path.is_file()]
    assert here.backups()[0] in files
    for path in files:
        content = path.read_bytes()
        assert not [secret for secret in SECRETS if secret.encode() in content], path
    assert (home / "lab").stat().st_mode & 0o077 == 0
    assert (home / "lab/switches").stat().st_mode & 0o077 == 0
    for path in here.backups():
        assert path.stat().st_mode & 0o077 == 0
