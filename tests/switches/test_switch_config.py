"""The Ansible action: check mode, diff, a failure, and where secrets do not stand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import PASSWORD
from processes import watching_processes

from standin.switches.plane import End

type Make = Callable[..., Any]

PROJECT = Path(__file__).resolve().parents[2]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
COMMUNITY = "Readers0nly"

RACK = """\
rack: lab
network:
  cidr: 127.0.0.0/8
  medium: ethernet
  controller: 127.0.0.9
  vlan: 10
  vlans: {20: cameras}
  snmp: {community: snmp_community}
switches:
  sw1: {platform: PLATFORM, address: 127.0.0.1, ports: 9, uplinks: {router: 9}, reserved: 6}
phones:
  - {names: phone001, switch: sw1, ports: 1, addresses: 127.7.7.7}
"""


class Playbook:
    """site.yml's phase for switches on one stand-in switch, secrets in the environment."""

    def __init__(self, rig: Any, folder: Path) -> None:
        self.file = folder / "rack.yml"
        self.file.write_text(RACK.replace("PLATFORM", rig.rack.switches["sw1"].platform))
        self.home = rig.make_home(folder)
        self.env = os.environ | {
            "PHONERACK_HOME": str(self.home),
            "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
            "SWITCH_PASSWORD": PASSWORD,
            "SNMP_COMMUNITY": COMMUNITY,
            "ANSIBLE_LOG_PATH": str(folder / "ansible.log"),
        }
        self.log = folder / "ansible.log"
        self.port = rig.targets["sw1"].port

    def run(
        self, *options: str, book: Path = PROJECT / "playbooks/switches.yml", **env: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                *(str(PLAYBOOK), "-i", str(self.file), "-vvv", "-e", f"switch_port={self.port}"),
                *(str(book), *options),
            ],
            cwd=PROJECT,
            env=self.env | env,
            text=True,
            capture_output=True,
            timeout=300,
        )


@pytest.fixture
def playbook(lab: Make, tmp_path: Path) -> Callable[[str], tuple[Any, Playbook]]:
    def make(platform: str) -> tuple[Any, Playbook]:
        rig = lab(platform)
        return rig, Playbook(rig, tmp_path)

    return make


def test_check_mode_shows_the_candidate_and_changes_nothing(
    playbook: Callable[[str], tuple[Any, Playbook]],
) -> None:
    rig, play = playbook("cisco_ios")
    before = rig.settings()
    done = play.run("-C", "-D")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "+ description phone001" in done.stdout
    assert "+vlan 20" in done.stdout
    assert rig.settings() == before


def test_a_run_changes_the_next_one_does_not_and_secrets_stand_nowhere(
    playbook: Callable[[str], tuple[Any, Playbook]], tmp_path: Path
) -> None:
    # No phone is on loopback, so none has to come back.
    rig, play = playbook("arista_eos")
    with watching_processes() as seen:
        first = play.run("-D")
    assert [words for words in seen if "playbooks/switches.yml" in words]
    assert first.returncode == 0, first.stdout + first.stderr
    assert "changed=1" in first.stdout
    assert list(rig.settings().snmp_communities) == [COMMUNITY]
    assert rig.startup() == rig.settings()
    second = play.run()
    assert "changed=0" in second.stdout, second.stdout
    kept = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    for secret in (PASSWORD, COMMUNITY):
        shown = "".join([first.stdout, first.stderr, second.stdout, second.stderr, *kept])
        assert not [words for words in seen if secret in words]
        assert secret not in shown


@pytest.mark.soak
def test_secrets_of_the_vault_stand_in_no_event_of_a_run(
    playbook: Callable[[str], tuple[Any, Playbook]], tmp_path: Path
) -> None:
    """`fleetctl provision -t switches`: the vault is decrypted inside Ansible, and what
    ansible-runner keeps of its events holds none of it."""
    rig, play = playbook("arista_eos")
    password = tmp_path / "vault-password"
    password.write_text("Vault-Pa55word\n")
    sealed = tmp_path / "group_vars/all.yml"
    sealed.parent.mkdir()
    sealed.write_text(f"switch_password: {PASSWORD}\nsnmp_community: {COMMUNITY}\n")
    vault = PLAYBOOK.with_name("ansible-vault")
    subprocess.run(
        [vault, "encrypt", "--vault-password-file", password, sealed],
        check=True,
        capture_output=True,
    )
    bare = dict.fromkeys(("SWITCH_PASSWORD", "SNMP_COMMUNITY"), "")
    done = subprocess.run(
        [
            *(PLAYBOOK.with_name("fleetctl"), "provision", "-t", "switches", "-D", "-vvv"),
            *("--vault-password-file", password, "-e", f"switch_port={play.port}"),
        ],
        cwd=PROJECT,
        env=play.env | bare | {"PHONERACK_RACK": str(play.file)},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(rig.settings().snmp_communities) == [COMMUNITY]
    files = [path for path in play.home.rglob("*") if path.is_file()]
    assert [path for path in files if "provisions" in path.parts], "the run has left its record"
    shown = done.stdout + done.stderr
    for secret in (PASSWORD, COMMUNITY, "Vault-Pa55word"):
        assert secret not in shown
        assert not [path for path in files if secret.encode() in path.read_bytes()]


LOOK = """\
- hosts: controller
  gather_facts: false
  tasks:
    - switch_cables: {rack_file: "{{ rack_file }}", phones: [phone001], port: PORT}
      register: cables
    - ansible.builtin.debug: {msg: "{{ cables.notes }}"}
    - ansible.builtin.debug: {msg: "links {{ cables.links | to_json }}"}
"""


def test_the_verify_phase_asks_the_switches_where_phones_are_plugged_in_and_how(
    playbook: Callable[[str], tuple[Any, Playbook]], tmp_path: Path
) -> None:
    rig, play = playbook("arista_eos")
    rig.settle()
    (tmp_path / "rack.lock.yml").write_text(
        "rack: lab\nversion: 1\nphones:\n  phone001: {mac: '02:00:5e:10:00:01'}\n"
    )
    ports = [port.interface for port in rig.job("sw1").intent.ports]
    rig.network.hosts.clear()
    rig.network.hosts["02:00:5e:10:00:01"] = End("sw1", ports[2])
    rig.network.hosts["02:00:5e:10:00:99"] = End("sw1", ports[0])
    rig.network.speeds[End("sw1", ports[0])] = 100
    book = tmp_path / "look.yml"
    book.write_text(LOOK.replace("PORT", str(play.port)))
    before = rig.settings()
    done = play.run(book=book)
    assert done.returncode == 0, done.stdout + done.stderr
    told = " ".join(done.stdout.split())
    assert "phone001 is at port 3 of sw1 instead of port 1 of sw1" in told
    links = json.dumps({"phone001": {"speed_mbits": 100, "full_duplex": True}})
    assert links in told.replace('\\"', '"')
    assert "changed=0" in told
    assert PASSWORD not in done.stdout + done.stderr
    assert rig.settings() == before


def test_a_failure_names_switch_port_line_and_text(
    playbook: Callable[[str], tuple[Any, Playbook]],
) -> None:
    rig, play = playbook("arista_eos")
    rig.look(lambda device: setattr(device.knobs, "reject", "description phone001"))
    before = rig.settings()
    done = play.run()
    assert done.returncode == 2
    told = " ".join(done.stdout.split())
    assert "sw1: port 1 (Ethernet1, phone001): it rejected `description phone001`" in told
    assert rig.settings() == before

    done = play.run(SWITCH_PASSWORD="")
    assert "no secret `switch_password` in the vault or the environment" in done.stdout
