"""What is sent to a switch, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Network

import pytest
from conftest import KINDS, Case, make_case, small_rack
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.rack import Network, Phone, Rack, Switch
from fleetctl.switches.config import to_text
from fleetctl.switches.errors import RefusedError, UnreadableError
from fleetctl.switches.platforms import NAMES, platform

type Typed = Callable[[str], tuple[str, ...]]


def test_every_platform_that_a_rack_file_may_name_is_there() -> None:
    from typing import get_args

    from fleetctl.rack.schema import SwitchFile

    allowed = get_args(SwitchFile.model_fields["platform"].annotation)
    assert sorted(allowed) == sorted(NAMES)
    assert [platform(name).name for name in NAMES] == list(NAMES)


def test_a_new_ios_switch_is_told_everything(ios: Case) -> None:
    change = ios.plan()
    assert change.commands == (
        *("spanning-tree mode rapid-pvst", "lldp run"),
        *("vlan 10", "name phones", "vlan 20", "name cameras"),
        *(
            line
            for port in range(1, 5)
            for line in (
                f"interface GigabitEthernet1/0/{port}",
                f"description phone00{port}",
                "switchport access vlan 10",
                "switchport mode access",
                "spanning-tree bpduguard enable",
                "spanning-tree portfast",
                "storm-control broadcast level 1.00",
            )
        ),
        *("interface GigabitEthernet1/0/5", "description unused"),
        *("switchport mode access", "shutdown"),
        *("interface Port-channel1", "description uplink-sw2"),
        *("switchport trunk allowed vlan 10,20", "switchport mode trunk"),
        *(
            line
            for port in (7, 8)
            for line in (
                f"interface GigabitEthernet1/0/{port}",
                "description uplink-sw2",
                "switchport trunk allowed vlan 10,20",
                "switchport mode trunk",
                "channel-group 1 mode active",
            )
        ),
        *("interface GigabitEthernet1/0/9", "description uplink-router"),
        *("switchport trunk allowed vlan 10,20", "switchport mode trunk"),
        *("exit", "hostname sw1"),
    )


def test_a_right_switch_is_told_nothing(case: Case) -> None:
    case.converge()
    assert case.plan().commands == ()
    assert not case.plan()


@pytest.mark.parametrize(
    ("typed_before", "sent"),
    [
        pytest.param(
            "interface Gi1/0/9\nswitchport trunk allowed vlan 10,30",
            ["switchport trunk allowed vlan add 20", "switchport trunk allowed vlan remove 30"],
            id="a list of VLANs",
        ),
        pytest.param(
            "interface Po1\nswitchport trunk allowed vlan 10,30",
            ["switchport trunk allowed vlan add 20", "switchport trunk allowed vlan remove 30"],
            id="a bundle tells its members",
        ),
        pytest.param(
            "interface Gi1/0/2\nswitchport access vlan 20",
            ["switchport access vlan 10"],
            id="an access port in another VLAN",
        ),
        pytest.param(
            "interface Gi1/0/2\nswitchport mode trunk\nswitchport trunk allowed vlan 10,30\n"
            "no spanning-tree portfast\nchannel-group 5 mode active",
            [
                "no channel-group",
                "switchport mode access",
                "spanning-tree portfast",
                "no switchport trunk allowed vlan",
            ],
            id="a phone's port in somebody's bundle",
        ),
        pytest.param("interface Gi1/0/3\nshutdown", ["no shutdown"], id="a port shut down"),
        pytest.param("interface Gi1/0/3\nspeed 100", ["no speed"], id="a slow port"),
        pytest.param("interface Gi1/0/3\nno description", ["description phone003"], id="no name"),
        pytest.param("interface Gi1/0/5\nno shutdown", ["shutdown"], id="an unused port up"),
        pytest.param(
            "interface Gi1/0/3\nno cdp enable", ["cdp enable"], id="a line that begins with no"
        ),
        pytest.param("vlan 10\nname telephones", ["name phones"], id="a VLAN with another name"),
        pytest.param(
            "vlan 10\nno name\nvlan 20\nname phones\nvlan 10\nname cameras",
            ["no name", "no name", "name phones", "name cameras"],
            id="names exchanged",
        ),
        pytest.param("vlan 30\nname cellar", ["no vlan 30"], id="a VLAN too many"),
        pytest.param("hostname old", ["hostname sw1"], id="another name"),
    ],
)
def test_only_the_difference_is_sent(typed: Typed, typed_before: str, sent: list[str]) -> None:
    paths = ("interface ", "vlan ", "exit")
    commands = typed(typed_before)
    found = [command for command in commands if not command.startswith(paths)]
    # What sits in a bundle that is not ours takes the bundle along.
    assert [command for command in found if command != "no interface Port-channel5"] == sent


def test_an_old_vlan_goes_when_nobody_is_in_it_any_more(typed: Typed) -> None:
    commands = typed("vlan 30\ninterface Gi1/0/2\nswitchport access vlan 30")
    assert commands == (
        *("interface GigabitEthernet1/0/2", "switchport access vlan 10"),
        *("exit", "no vlan 30"),
    )


EQUAL = {
    "spanning-tree portfast edge": "spanning-tree portfast",
    "storm-control broadcast level 1.00": "storm-control broadcast level 1",
    "storm-control broadcast level 1.00 ": "storm-control broadcast level 1.00 1.00",
    "switchport trunk allowed vlan 10,20": (
        "switchport trunk allowed vlan 10\n switchport trunk allowed vlan add 20"
    ),
    "hostname sw1": "hostname   sw1",
    "interface GigabitEthernet1/0/3": "interface Gi1/0/3",
    "interface Port-channel1": "interface port-channel 1",
    " switchport mode access": " switchport access vlan 1\n switchport mode access",
    " switchport mode trunk": " switchport trunk native vlan 1\n switchport mode trunk",
    "vtp mode transparent": "vtp mode off",
    "vlan 20\n name cameras": "vlan 1,1002-1005\n!\nvlan 20\n name cameras",
    " description unused": " switchport trunk encapsulation dot1q\n description unused",
}


@pytest.mark.parametrize(("shown", "instead"), EQUAL.items(), ids=list(EQUAL.values()))
def test_other_ways_to_write_the_same_are_no_difference(
    ios: Case, shown: str, instead: str
) -> None:
    ios.converge()
    text = ios.switch.running()
    shown = shown.rstrip()
    assert shown in text
    written = text.replace(shown, instead)
    assert ios.platform.read(written, ios.intent) == ios.platform.read(text, ios.intent)


EQUAL_ON_EOS = {
    "spanning-tree portfast": "spanning-tree portfast edge",
    "storm-control broadcast level 1\n": "storm-control broadcast level 1.00\n",
    "switchport trunk allowed vlan 10,20": (
        "switchport trunk allowed vlan 10\n   switchport trunk allowed vlan add 20"
    ),
    "hostname sw1": "hostname   sw1",
    "interface Ethernet3\n": "interface Et3\n",
    "interface Port-Channel1": "interface Po1",
    "description phone001": "switchport mode access\n   description phone001",
    "description phone002": "no shutdown\n   description phone002",
    "switchport mode trunk": "switchport mode trunk\n   switchport trunk native vlan 1",
    "vlan 20\n   name cameras": "vlan 1\n!\nvlan 20\n   name cameras",
}


@pytest.mark.parametrize(
    ("shown", "instead"), EQUAL_ON_EOS.items(), ids=list(EQUAL_ON_EOS.values())
)
def test_other_ways_to_write_the_same_are_no_difference_on_eos_either(
    shown: str, instead: str
) -> None:
    eos = make_case("arista_eos")
    eos.converge()
    text = eos.switch.running()
    assert shown in text
    written = text.replace(shown, instead)
    assert eos.platform.read(written, eos.intent) == eos.platform.read(text, eos.intent)


@pytest.mark.parametrize("line", ["permit 10.0.0.1", "permit host 10.0.0.1", "10 permit 10.0.0.1"])
@pytest.mark.parametrize("name", list(KINDS))
def test_entries_of_an_access_list_are_equal_however_they_are_written(name: str, line: str) -> None:
    assert platform(name).normal_line(line) == "permit 10.0.0.1"  # type: ignore[attr-defined]


@given(st.sampled_from(["10-20", "10,11-20", "10-15,16-20", "10,11,12,13-20"]))
def test_ranges_may_be_cut_anywhere(ranges: str) -> None:
    ios = make_case("cisco_ios")
    ios.converge()
    written = ios.switch.running().replace("vlan 10,20\n", f"vlan {ranges}\n")
    running = ios.platform.read(written, ios.intent)
    assert running.config["interface GigabitEthernet1/0/9"] == (
        *("description uplink-router", "switchport mode trunk"),
        "switchport trunk allowed vlan 10-20",
    )


def test_names_of_interfaces_in_tables_are_found_in_the_configuration() -> None:
    ios, eos = platform("cisco_ios"), platform("arista_eos")
    for short, full in (
        ("Gi1/0/3", "GigabitEthernet1/0/3"),
        ("gigabitethernet 1/0/3", "GigabitEthernet1/0/3"),
        ("Te1/1/1", "TenGigabitEthernet1/1/1"),
        ("Twe1/0/1", "TwentyFiveGigE1/0/1"),
        ("Tw1/0/1", "TwoGigabitEthernet1/0/1"),
        ("Po1", "Port-channel1"),
        ("CPU", "CPU"),
    ):
        assert ios.long_name(short) == full
    assert eos.long_name("Et3") == "Ethernet3"
    assert eos.long_name("Po1") == "Port-Channel1"
    assert eos.long_name("Et49/1") == "Ethernet49/1"


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda text: text[: len(text) // 2], "does not end with `end`"),
        (lambda text: text.replace("hostname sw1\n", ""), "names no hostname"),
        (lambda text: " orphan\n" + text, "`orphan` stands below nothing"),
        (lambda text: "banner motd ^CHello\n" + text, "a banner does not end"),
        (lambda text: text.replace("vlan 10,20", "vlan 10,x"), "`10,x` is no list of VLANs"),
        (lambda _: "", "does not end with `end`"),
        (lambda _: "% Authorization failed.\n", "does not end with `end`"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_refused(
    ios: Case, spoil: Callable[[str], str], told: str
) -> None:
    ios.converge()
    with pytest.raises(UnreadableError, match="sw1: its running configuration cannot") as caught:
        ios.platform.read(spoil(ios.switch.running()), ios.intent)
    assert told in str(caught.value)
    assert "nothing was sent" in str(caught.value)


@pytest.mark.parametrize("banner", ["banner motd ^C\nhostname x\n^C\n", "banner motd #vlan 9#\n"])
def test_what_stands_in_a_banner_is_no_configuration(ios: Case, banner: str) -> None:
    ios.converge()
    text = ios.switch.running()
    assert ios.platform.read(banner + text, ios.intent) == ios.platform.read(text, ios.intent)


def test_a_switch_without_one_of_the_ports_is_refused(ios: Case) -> None:
    text = ios.switch.running().replace("1/0/9", "1/0/10")
    running = ios.platform.read(text, ios.intent)
    from fleetctl.switches.plan import plan_change

    with pytest.raises(RefusedError, match=r"port 9 would be GigabitEthernet1/0/9, which this"):
        plan_change(ios.platform, ios.intent, running)


def test_the_switch_s_own_address_is_never_cut_off(ios: Case) -> None:
    ios.switch.type(["vlan 99", "interface Vlan99", "ip address 10.0.0.2 255.255.255.0"])
    with pytest.raises(RefusedError, match=r"its address 10\.0\.0\.2 is in VLAN 99") as caught:
        ios.plan()
    assert "add 99 to `vlans:`" in str(caught.value)
    # A reserved port may carry it.
    ios.switch.type(["interface Gi1/0/6", "switchport access vlan 99"])
    assert "no vlan 99" not in ios.plan().commands


def test_a_bundle_that_holds_reserved_ports_is_refused(case: Case) -> None:
    reserved = case.intent.ports[5].interface
    case.switch.type([f"interface {reserved}", "channel-group 1 mode active"])
    with pytest.raises(RefusedError, match="channel group 1 holds ports that are reserved"):
        case.plan()


def test_a_name_that_a_reserved_port_s_vlan_bears_is_refused_on_ios(ios: Case) -> None:
    ios.switch.type(["interface Gi1/0/6", "switchport access vlan 30", "vlan 30", "name phones"])
    with pytest.raises(RefusedError, match="vlan 30 would be called phones, as vlan 10 is"):
        ios.plan()


def test_the_place_of_a_line_names_port_interface_and_phone(ios: Case) -> None:
    places = {step.place for step in ios.plan().steps}
    assert "port 3 (GigabitEthernet1/0/3, phone003)" in places
    assert "port 9 (GigabitEthernet1/0/9, uplink-router)" in places
    assert {"vlan 10", "hostname sw1", "interface Port-channel1"} <= places


def test_jumbo_frames_are_a_matter_of_ios_only() -> None:
    for name, expected in (("cisco_ios", {"system mtu 9000"}), ("arista_eos", set())):
        rack = small_rack(name)
        case = make_case(name, replace(rack, network=replace(rack.network, mtu=9000)))
        assert {line for line in case.plan().commands if "mtu" in line} == expected


def test_the_candidate_reads_like_a_configuration(ios: Case) -> None:
    _, after = ios.plan().diff_texts()
    assert after.splitlines()[:5] == [
        "lldp run",
        "spanning-tree mode rapid-pvst",
        "vtp mode transparent",
        "hostname sw1",
        "vlan 10",
    ]
    assert after.index("1/0/2\n") < after.index("1/0/9\n")
    assert to_text({"vlan 10": ("name phones",)}) == "vlan 10\n name phones\n"


def test_48_ports_take_about_as_many_lines_as_people_measured() -> None:
    phones = {
        f"phone{n:03}": Phone(f"phone{n:03}", f"10.0.0.{n + 10}", switch="sw1", port=n)
        for n in range(1, 49)
    }
    switch = Switch("sw1", "cisco_ios", "10.0.0.2", 52, (49, 50, 51, 52))
    network = Network(IPv4Network("10.0.0.0/24"), "ethernet", vlan=10, vlans={10: "phones"})
    case = make_case("cisco_ios", Rack("lab", network, phones, {"sw1": switch}))
    assert 350 < len(case.plan().commands) < 400
    case.converge()
    assert case.plan().commands == ()


@pytest.mark.parametrize("name", ["cisco_ios", "arista_eos"])
def test_what_leads_to_an_unmanaged_switch_carries_the_phones_untagged(name: str) -> None:
    """It knows no VLANs, and no bundles; whatever is tagged it passes on as it comes."""
    rack = small_rack(name)
    beside = replace(rack, switches=rack.switches | {"sw2": Switch("sw2")})
    case = make_case(name, beside)
    case.converge()
    effects = case.switch.effects()
    ports = {port.number: effects[port.interface] for port in case.intent.ports}
    for number in (7, 8):
        found = ports[number]
        assert (found.untagged, found.tagged, found.group) == (10, frozenset({20}), None)
    assert (ports[9].untagged, ports[9].tagged) == (None, frozenset({10, 20}))
    assert case.plan().commands == ()
    # Without VLANs of its own the rack is untagged everywhere.
    flat = make_case(name, replace(beside, network=replace(rack.network, vlan=1, vlans={1: "x"})))
    flat.converge()
    assert flat.switch.effects()[flat.intent.ports[6].interface].untagged == 1
    assert not any("native" in line for line in flat.switch.running().splitlines())
