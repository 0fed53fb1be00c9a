"""`fleetctl check cables` on switches behind ssh: phones in their ports, MACs from their tables."""

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

from standin.switches.plane import End

type Make = Callable[..., Any]

FLEETCTL = Path(sys.executable).with_name("fleetctl")
RACK = """\
rack: lab
network: {cidr: 127.0.0.0/8, medium: ethernet, controller: 127.0.0.9, vlan: 10}
switches:
  sw1: {platform: PLATFORM, address: 127.0.0.1, ports: 9, uplinks: {router: 9}, reserved: 6}
phones:
  - {names: "phone[001-003]", switch: sw1, ports: 1-3, addresses: 127.7.7.1-3}
"""
MACS = {f"phone00{number}": f"02:00:5e:10:00:0{number}" for number in (1, 2, 3)}


class Desk:
    """A rack file of three phones, its lock file, and the switch that they are plugged into."""

    def __init__(self, rig: Any, folder: Path) -> None:
        self.rig = rig
        self.file = folder / "rack.yml"
        self.file.write_text(RACK.replace("PLATFORM", rig.rack.switches["sw1"].platform))
        self.lock = folder / "rack.lock.yml"
        phones = "".join(f"  {name}: {{mac: '{mac}'}}\n" for name, mac in MACS.items())
        self.lock.write_text(f"rack: lab\nversion: 1\nphones:\n{phones}")
        home = rig.make_home(folder)
        self.env = os.environ | {
            "PHONERACK_HOME": str(home),
            "PHONERACK_RACK": str(self.file),
            "SWITCH_PASSWORD": PASSWORD,
            "COLUMNS": "160",
        }
        rig.settle()
        self.plug(**MACS)

    def plug(self, **macs: str) -> None:
        """Have these MACs in the ports of these phones, and nothing anywhere else."""
        ports = {f"phone00{number}": number for number in range(1, 6)}
        interfaces = [port.interface for port in self.rig.job("sw1").intent.ports]
        hosts = {mac: End("sw1", interfaces[ports[name] - 1]) for name, mac in macs.items()}
        self.rig.network.hosts.clear()
        self.rig.network.hosts.update(hosts)

    def check(
        self, *options: str, code: int = 0, typed: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [FLEETCTL, "check", "cables", "--port", str(self.rig.targets["sw1"].port), *options],
            env=self.env | env,
            input=typed,
            text=True,
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done


@pytest.fixture
def desk(lab: Make, tmp_path: Path) -> Callable[[str], Desk]:
    return lambda platform: Desk(lab(platform), tmp_path)


@pytest.mark.parametrize(
    "platform", [pytest.param("cisco_ios", marks=pytest.mark.soak), "arista_eos"]
)
def test_phones_in_their_ports_are_right_and_swapped_ones_are_named(
    desk: Callable[[str], Desk], platform: str
) -> None:
    here = desk(platform)
    assert "3 phones are where the rack file says" in here.check().stdout
    here.plug(phone001=MACS["phone002"], phone002=MACS["phone001"], phone003=MACS["phone003"])
    shown = here.check(code=3).stdout
    assert "phone001 and phone002 are swapped: port 1 of sw1 and port 2 of sw1" in shown
    assert "port 2 of sw1 and port 1 of sw1" in shown
    document = json.loads(here.check("-o", "json", code=3).stdout)
    assert [item["kind"] for item in document["findings"]] == ["swapped", "swapped"]
    assert len(document["mend"]) == 1


def test_a_new_adapter_is_adopted_into_the_lock_file_after_confirmation(
    desk: Callable[[str], Desk],
) -> None:
    here = desk("arista_eos")
    before = here.lock.read_text()
    new = "02:00:5e:10:00:77"
    here.plug(**{**MACS, "phone003": new})
    assert "replaced" in here.check(code=3).stdout
    assert here.lock.read_text() == before
    asked = here.check("--adopt", code=3, typed="n\n")
    assert f"phone003: {new}" in asked.stderr
    assert "Write these into" in asked.stderr
    assert here.lock.read_text() == before
    here.check("--adopt", code=3, typed="y\n")
    assert new in here.lock.read_text()
    assert MACS["phone001"] in here.lock.read_text()
    assert "3 phones are where the rack file says" in here.check().stdout


def test_a_switch_that_cannot_be_asked_leaves_its_phones_unknown(
    desk: Callable[[str], Desk],
) -> None:
    here = desk("cisco_ios")
    done = here.check("-o", "json", code=3, SWITCH_PASSWORD="wrong-one")
    document = json.loads(done.stdout)
    assert {item["kind"] for item in document["findings"]} == {"unknown"}
    assert "does not let admin in" in document["problems"]["sw1"]
    assert "wrong-one" not in done.stdout + done.stderr
