"""site.yml on managed switches: configured, watched, verified; and `bench net`, which asks them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from small_rack import PROJECT, output
from switched_rack import COMMUNITY, SwitchedRack, awaited

from standin.openvswitch.enrolment import PASSWORD

pytestmark = [pytest.mark.standin, pytest.mark.soak, pytest.mark.timeout(3000)]

ONE, SLOW, FAR, HUB = "phone001", "phone002", "phone003", "phone004"


@dataclass(frozen=True)
class SiteRack(SwitchedRack):
    """phone001 and phone002 on sw1 (IOS), phone003 and phone004 on sw2 (EOS)."""

    def write(self) -> None:
        super().write()
        text = self.file.read_text()
        text = text.replace("mtu: 2000", "snmp: {community: snmp_community}")
        text = text.replace("ports: 1, addresses", "ports: 1-2, addresses")
        network = f"10.{self.subnet}.0"
        self.file.write_text(text.replace(f"{network}.13}}", f"{network}.13-14}}"))

    @property
    def environment(self) -> dict[str, str]:
        secrets = {"SWITCH_PASSWORD": PASSWORD, "SNMP_COMMUNITY": COMMUNITY}
        return {**super().environment, **secrets, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")}

    def site(self, *arguments: str) -> str:
        playbook = Path(sys.executable).with_name("ansible-playbook")
        done = subprocess.run(
            [playbook, "-i", self.file, "site.yml", *arguments],
            cwd=PROJECT,
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=2400,
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
        return done.stdout

    def services(self, *command: str) -> str:
        """What a command says on the services host."""
        return output("podman", "exec", f"{self.namespace}-services", *command)

    def asked(self, query: str) -> list[dict[str, Any]]:
        """What Prometheus answers."""
        url = f"http://10.{self.subnet}.0.2:9090/api/v1/query?query={query}"
        text = output("curl", "-fsSg", url)
        rows: list[dict[str, Any]] = json.loads(text)["data"]["result"]
        return rows


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteRack]:
    rack = SiteRack("switched-site", 149, tmp_path_factory.mktemp("switched-site"))
    rack.write()
    try:
        rack.standin("up")
        rack.site()
        yield rack
    finally:
        rack.standin("down")


def test_the_switch_exporter_serves_on_the_racks_network_and_its_secret_is_its_own(
    rack: SiteRack,
) -> None:
    folder = "/etc/phonerack-switches"
    modes = rack.services(
        "stat", "-c", "%a %U %G", folder, f"{folder}/community", f"{folder}/settings.json"
    )
    assert modes.splitlines() == [
        "750 root phonerack-switches",
        "440 root phonerack-switches",
        "640 root phonerack-switches",
    ]
    assert rack.services("cat", f"{folder}/community") == COMMUNITY
    assert COMMUNITY not in rack.services("cat", f"{folder}/settings.json")
    assert COMMUNITY not in rack.services("ps", "-eo", "args")
    page = output("curl", "-fsS", f"http://10.{rack.subnet}.0.2:9866/metrics")
    for switch in ("sw1", "sw2"):
        assert f'phonerack_switch_up{{switch="{switch}"}} 1.0' in page
    drift = [line for line in page.splitlines() if line.startswith("phonerack_switch_drift{")]
    assert drift
    assert [line for line in drift if not line.endswith(" 0.0")] == []
    ready = awaited(lambda: rack.asked('phonerack_switch_port_up{phone!=""}==1'))
    assert {row["metric"]["phone"] for row in ready} == {ONE, SLOW, FAR, HUB}
    assert {row["metric"]["rack"] for row in ready} == {rack.name}


def test_links_of_100_megabits_and_at_usb_2_speed_are_named_by_bench_and_verify(
    rack: SiteRack,
) -> None:
    rack.standin("fault", SLOW, "100mbit")
    rack.standin("fault", HUB, "300mbit")
    try:
        done = rack.fleetctl("bench", "net", "--seconds", "2", "-o", "json")
        verified = " ".join(rack.site("-t", "verify").split())
    finally:
        rack.standin("heal")
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert set(found["slow"]) == {SLOW, HUB}
    assert found["slow"][SLOW].startswith("100 Mb/s link: carries")
    assert found["slow"][HUB].startswith("USB 2 hub: carries")
    assert found["links"] == {ONE: 1000, SLOW: 100, FAR: 1000, HUB: 1000}
    assert found["trouble"][SLOW].startswith("100 Mb/s link")
    assert HUB not in found["trouble"], "its link to the switch is a good one"
    assert found["mtu"] == {}
    assert found["counters"] is True
    assert f"{SLOW}: 100 Mb/s link: carries" in verified
    assert f"{HUB}: USB 2 hub: carries" in verified


def test_a_second_run_changes_nothing_on_switches(rack: SiteRack) -> None:
    told = rack.site("-t", "switches,monitoring,verify")
    assert "4 phones said hello over MPI and export their state" in " ".join(told.split())
    recap = told[told.index("PLAY RECAP") :]
    assert [
        line for line in recap.splitlines()[1:] if ":" in line and "changed=0" not in line
    ] == []
