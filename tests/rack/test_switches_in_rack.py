"""What a rack file may say about switches, and what it says back when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetctl.rack import Rack, RackError, load_rack
from fleetctl.rack.model import Bundle, SwitchLogin

GOOD = """\
rack: lab
network:
  cidr: 10.1.0.0/24
  medium: ethernet
  controller: 10.1.0.1
  vlan: 10
  vlans: {20: cameras}
  snmp: {community: snmp_community}
switches:
  sw_1:
    platform: cisco_ios
    address: 10.1.0.2
    ports: 52
    uplinks:
      sw_2: 49-50
      router: 51
    reserved: 52
    interfaces: {1-48: GigabitEthernet1/0/1, 49-52: TenGigabitEthernet1/1/1}
    login: {user: netops, password: lab_password, enable: lab_enable}
  sw_2:
    platform: arista_eos
    address: 10.1.0.3
    uplinks: {sw_1: 47-48}
phones:
  - names: phone001
    switch: sw_1
    ports: 1
    addresses: 10.1.0.11
"""


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))


def load(tmp_path: Path, text: str) -> Rack:
    path = tmp_path / "rack.yml"
    path.write_text(text)
    return load_rack(path)


def test_vlans_uplinks_interfaces_and_logins_are_read(tmp_path: Path) -> None:
    rack = load(tmp_path, GOOD)
    assert dict(rack.network.vlans) == {10: "phones", 20: "cameras"}
    assert (rack.network.vlan, rack.network.snmp_community) == (10, "snmp_community")
    switch = rack.switches["sw_1"]
    assert switch.hostname == "sw-1"
    assert switch.uplinks == (49, 50, 51)
    assert switch.bundles == (Bundle("sw_2", (49, 50)), Bundle("router", (51,)))
    assert switch.interfaces[47:50] == (
        "GigabitEthernet1/0/48",
        "TenGigabitEthernet1/1/1",
        "TenGigabitEthernet1/1/2",
    )
    assert switch.login == SwitchLogin("netops", "lab_password", "lab_enable")


def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    vlans = "  vlan: 10\n  vlans: {20: cameras}\n  snmp: {community: snmp_community}\n"
    rack = load(tmp_path, GOOD.replace(vlans, ""))
    assert dict(rack.network.vlans) == {1: "phones"}
    assert rack.network.snmp_community is None
    assert rack.switches["sw_2"].login == SwitchLogin("admin", "switch_password", None)


def test_plain_uplinks_are_in_no_bundle(tmp_path: Path) -> None:
    text = GOOD.replace("uplinks: {sw_1: 47-48}", "uplinks: 47-48")
    rack = load(tmp_path, text.replace("      sw_2: 49-50\n", "      core: 49-50\n"))
    assert rack.switches["sw_2"].uplinks == (47, 48)
    assert rack.switches["sw_2"].bundles == ()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("vlan: 10", "vlan: 4095", "6: VLAN 4095 does not exist", id="VLAN too high"),
        pytest.param("vlan: 10", "vlan: 1003", "6: VLAN 1003 does not", id="Token Ring's VLAN"),
        pytest.param("20: cam", "0: cam", "7: VLAN 0 does not exist", id="VLAN 0"),
        pytest.param("20: cameras", '20: "cam?"', "7: 'cam?' is no VLAN name", id="VLAN name"),
        pytest.param("{20: cameras}", "20-30", "7: `vlans` is no mapping", id="VLANs as a range"),
        pytest.param(
            "cisco_ios", "cisco_nxos", "11: `platform: cisco_nxos` is unknown", id="platform"
        ),
        pytest.param("sw_2: 49-50", "sw_2: 49-53", "14: uplinks port 53 of sw_1", id="port"),
        pytest.param("router: 51", "router: 50", "14: port 50 of sw_1 twice", id="port twice"),
        pytest.param("reserved: 52", "reserved: 51", "17: port 51 of sw_1 is an uplink", id="both"),
        pytest.param("router: 51", '"ro ut?": 51', "16: 'ro ut?' is no name of a", id="neighbour"),
        pytest.param("router: 51", '"core\\t": 51', "16: 'core\\t' is no name of a", id="tab"),
        pytest.param("router: 51", "'core ': 51", "16: 'core ' is no name of a", id="blank"),
        pytest.param("router: 51", "'\"core': 51", "16: '\"core' is no name of a", id="quote"),
        pytest.param("router: 51", "router: up", "16: `up` is no range", id="no port"),
        pytest.param(
            "      sw_2: 49-50\n",
            "      sw_2: 49\n",
            "15: sw_1 leads to sw_2 with 1 ports, and sw_2 back with 2",
            id="bundles of different widths",
        ),
        pytest.param(
            "uplinks: {sw_1: 47-48}",
            "uplinks: 47-48",
            "15: sw_1 leads to sw_2 with 2 ports, and sw_2 not back",
            id="bundle without a counterpart",
        ),
        pytest.param(
            "uplinks: {sw_1: 47-48}",
            "uplinks: {sw_2: 47-48}",
            "23: sw_2 leads to itself",
            id="bundle to itself",
        ),
        pytest.param(
            "1-48: GigabitEthernet1/0/1,",
            "1-47: GigabitEthernet1/0/1,",
            "18: interfaces of sw_1 are not those of its ports 1 to 52",
            id="a port without interface",
        ),
        pytest.param(
            "49-52: TenGigabitEthernet1/1/1",
            "48-52: TenGigabitEthernet1/1/1",
            "18: port 48 twice",
            id="a port with two interfaces",
        ),
        pytest.param(
            "49-52: TenGigabitEthernet1/1/1",
            "49-52: GigabitEthernet1/0/1",
            "18: two ports of sw_1 have the same interface",
            id="an interface with two ports",
        ),
        pytest.param(
            "GigabitEthernet1/0/1", "Gi 1/0/1?", "18: 'Gi 1/0/1?' is no interface", id="interface"
        ),
        pytest.param("1-48:", "first:", "18: `first` is no range", id="ports of interfaces"),
        pytest.param("netops", "'net ops'", "19: 'net ops' is no user name", id="user"),
        pytest.param("ports: 1\n", "ports: 49\n", "27: phone001 on port 49 of sw_1", id="uplink"),
        pytest.param(
            "sw_1:\n    pl", "a23456789012345678901:\n    pl", "10: 'a2345", id="name of 21"
        ),
    ],
)
def test_a_mistake_names_line_and_cure(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in GOOD
    with pytest.raises(RackError) as caught:
        load(tmp_path, GOOD.replace(old, new, 1))
    found = [str(item).removeprefix(f"{tmp_path}/rack.yml:") for item in caught.value.mistakes]
    assert [text for text in found if text.startswith(expected)], found


@pytest.mark.parametrize("secret", ["Hunter2!", "hunter2", "s3cr3t pass", "PASSWORD", "_x"])
def test_a_secret_in_place_of_its_name_is_refused_and_not_repeated(
    tmp_path: Path, secret: str
) -> None:
    with pytest.raises(RackError) as caught:
        load(tmp_path, GOOD.replace("lab_password", f'"{secret}"'))
    (mistake,) = caught.value.mistakes
    assert mistake.line == 19
    assert "is no name of a secret" in mistake.what
    assert secret not in str(mistake).replace("SWITCH_PASSWORD", "").replace("switch_password", "")
