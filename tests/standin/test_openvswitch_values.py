"""Switches as Open vSwitch: what is written into its tables, and what its tables say."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.rack import InputError, Rack, load_rack
from fleetctl.switches.platforms import platform
from standin.errors import StandinError
from standin.fabric import (
    SCALED_RATE,
    FabricPlan,
    Found,
    Link,
    plan_fabric,
    plug_commands,
    rack_of,
    usual_kind,
)
from standin.openvswitch import rpc
from standin.openvswitch.enrolment import require_addresses
from standin.openvswitch.played import rate_bits, read_settings, write_settings
from standin.openvswitch.ports import (
    FIRST_HIDDEN,
    NO_VLAN,
    PortRow,
    Wire,
    learnt,
    plain_rows,
    rows,
)
from standin.openvswitch.wires import build_commands, interfaces, made, wires
from standin.switches.factory import port_names, reachable_settings
from standin.switches.state import PortEffect, effects, own_addresses

RACK = """\
rack: valued
network:
  {cidr: 10.9.0.0/24, medium: ethernet, controller: 10.9.0.1, services: 10.9.0.2, vlan: 10}
switches:
  sw1: {platform: cisco_ios, address: 10.9.0.3, ports: 12, uplinks: {sw2: 9-10}, reserved: 11-12}
  sw2: {platform: arista_eos, address: 10.9.0.4, ports: 12, uplinks: {sw1: 7-8, sw3: 9-10}}
  sw3: {platform: PLATFORM, address: 10.9.0.5, ports: 12, uplinks: {sw2: 1-2}}
phones:
  - {switch: sw1, ports: 1-2, addresses: 10.9.0.11-12}
  - {switch: sw3, ports: 5, addresses: 10.9.0.13}
"""


def make_rack(folder: Path, third: str = "cisco_ios") -> Rack:
    file = folder / "rack.yml"
    file.write_text(RACK.replace("PLATFORM", third))
    return load_rack(file)


@pytest.fixture
def rack(tmp_path: Path) -> Rack:
    return make_rack(tmp_path)


@pytest.fixture
def plan(rack: Rack) -> FabricPlan:
    return plan_fabric(rack, kind="ovs")


def effect(untagged: int | None, *tagged: int, group: int | None = None) -> PortEffect:
    return PortEffect(True, untagged, frozenset(tagged), group)


# --- the fabric -----------------------------------------------------------------------------------


def test_a_rack_with_a_switch_to_be_configured_gets_open_vswitch_and_no_other(rack: Rack) -> None:
    plain = {name: replace(switch, platform="unmanaged") for name, switch in rack.switches.items()}
    assert usual_kind(rack) == "ovs"
    assert usual_kind(replace(rack, switches=plain)) == "bridge"


def test_each_switch_is_in_a_namespace_of_its_own(plan: FabricPlan) -> None:
    assert plan.spaces == ("pr-valued.sw1", "pr-valued.sw2", "pr-valued.sw3")
    assert {rack_of(space) for space in plan.spaces} == {"valued"}
    assert rack_of("pr-valued") == "valued"


def test_links_are_a_tenth_of_a_real_rack_s_unless_it_is_said(rack: Rack) -> None:
    assert plan_fabric(rack, kind="ovs").rate == SCALED_RATE
    assert plan_fabric(rack, "200mbit", "ovs").rate == "200mbit"
    assert plan_fabric(rack).rate is None


def test_cables_lie_as_the_rack_file_says_and_all_where_a_tree_keeps_them_from_a_loop(
    rack: Rack, plan: FabricPlan
) -> None:
    def ends(some: FabricPlan) -> list[tuple[str, str]]:
        return [(one, other) for (one, _), (other, _) in (item.ends for item in some.uplinks)]

    first = [("sw1.9", "sw2.7"), ("sw2.9", "sw3.1")]
    assert ends(plan) == [first[0], ("sw1.10", "sw2.8"), first[1], ("sw2.10", "sw3.2")]
    assert ends(plan_fabric(rack)) == first


def test_a_switch_that_knows_no_tree_gets_no_loop(tmp_path: Path) -> None:
    plan = plan_fabric(make_rack(tmp_path, "unmanaged"), kind="ovs")
    assert len([item for item in plan.uplinks if item.ends[1][1] == "sw3"]) == 1


def test_controller_and_services_host_are_in_reserved_ports(plan: FabricPlan) -> None:
    assert plan.host_port == "sw1.11"
    assert plan.ports["services"].name == "sw1.12"


def test_ports_bear_the_names_that_the_switch_has_for_them(plan: FabricPlan, rack: Rack) -> None:
    found = {wire.device: wire for wire in wires(plan, rack, "sw1")}
    assert found["sw1.2"] == Wire("sw1.2", "GigabitEthernet1/0/2", 2)
    assert found["sw1.9"] == Wire("sw1.9", "GigabitEthernet1/0/9", 9, "sw2")
    assert {wire.port for wire in wires(plan, rack, "sw2")} == {
        *("Ethernet7", "Ethernet8", "Ethernet9", "Ethernet10")
    }


def test_a_stand_in_calls_its_ports_as_the_rack_file_expects(rack: Rack) -> None:
    for switch in rack.switches.values():
        assert interfaces(switch) == platform(switch.platform).interfaces(switch.ports)


def test_hosts_of_a_switch_without_reserved_ports_are_at_ports_that_it_does_not_know(
    rack: Rack,
) -> None:
    first = replace(rack.switches["sw1"], reserved=())
    bare = replace(rack, switches={**rack.switches, "sw1": first})
    found = wires(plan_fabric(bare, kind="ovs"), bare, "sw1")
    assert [wire.device for wire in found if wire.number >= FIRST_HIDDEN] == [
        *("sw1.host", "sw1.services")
    ]


def test_a_virgin_machine_gets_everything_and_a_whole_fabric_is_left_alone(
    plan: FabricPlan, rack: Rack
) -> None:
    lines = [" ".join(command) for command in build_commands(plan, rack, Found())]
    assert "ip netns add pr-valued.sw3" in lines
    assert any(
        "-n pr-valued.sw1 link add sw1.9 " in line and "peer name sw2.7" in line for line in lines
    )
    assert any("qdisc replace dev sw2.7 root tbf rate 100000kbit" in line for line in lines)
    assert "ethtool -K pr-valued tx off" in lines
    whole = Found({name: Link(None, True) for name in plan.masters}, True)
    again = [" ".join(command) for command in build_commands(plan, rack, whole)]
    assert not [line for line in again if " add " in line or "netns" in line]
    assert made(plan, whole) == []


def test_a_namespace_that_is_gone_is_made_again_with_what_was_in_it(
    plan: FabricPlan, rack: Rack
) -> None:
    gone = {"sw3.1", "sw3.2", "sw3.5", "sw2.9"}
    links = {name: Link(None, True) for name in plan.masters if name not in gone}
    found = Found(links, True, frozenset({"pr-valued.sw3"}))
    lines = [" ".join(command) for command in build_commands(plan, rack, found)]
    assert [line for line in lines if " netns add " in line] == ["ip netns add pr-valued.sw3"]
    assert "ip -n pr-valued.sw2 link delete sw2.10" in lines
    assert {device for device, _ in made(plan, found)} == {"sw2.9", "sw3.1", "sw2.10", "sw3.2"}


def test_phones_leave_no_checksum_to_hardware(plan: FabricPlan) -> None:
    lines = [" ".join(command) for command in plug_commands(plan, "phone001", 4711)]
    assert "nsenter -t 4711 -n ethtool -K eth0 tx off" in lines
    assert not [line for line in lines if "master" in line]


def test_a_stand_in_that_could_not_be_reached_is_refused(rack: Rack) -> None:
    far = replace(rack.switches["sw1"], address="192.168.1.3")
    require_addresses(rack)
    with pytest.raises(InputError, match=r"sw1 has the address 192\.168\.1\.3"):
        require_addresses(replace(rack, switches={"sw1": far}))


# --- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("port", "mode", "tag", "trunks"),
    [
        (effect(10), "access", [10], []),
        (effect(None, 10, 20), "trunk", [], [10, 20]),
        (effect(1, 10), "native-untagged", [1], [1, 10]),
        (effect(None), "access", [NO_VLAN], []),
    ],
)
def test_vlans_of_a_port(port: PortEffect, mode: str, tag: list[int], trunks: list[int]) -> None:
    columns = PortRow("Ethernet1", (Wire("sw1.1", "Ethernet1", 1),), port).columns
    assert columns["vlan_mode"] == mode
    assert columns["tag"] == ["set", tag]
    assert columns["trunks"] == ["set", trunks]
    assert columns["protected"] == (tag == [NO_VLAN])


def test_members_of_a_bundle_are_one_port_that_speaks_lacp() -> None:
    both = [Wire(f"sw1.{number}", f"Ethernet{number}", number, "sw2") for number in (9, 10)]
    found = rows(both, {wire.port: effect(None, 10, group=3) for wire in both})
    assert list(found) == ["Port-channel3"]
    assert found["Port-channel3"].wires == tuple(both)
    assert found["Port-channel3"].columns["lacp"] == "active"


def test_a_port_that_leaves_its_bundle_speaks_lacp_no_longer() -> None:
    wire = Wire("sw1.9", "Ethernet9", 9, "sw2")
    assert PortRow("Ethernet9", (wire,), effect(10)).columns["lacp"] == ["set", []]


def test_of_several_ways_to_a_switch_one_is_open_a_bundle_first_and_none_that_is_dead() -> None:
    ways = [Wire(f"sw1.{n}", f"Ethernet{n}", n, far) for n, far in ((7, "b"), (8, "b"), (9, "c"))]
    more = [*ways, Wire("sw1.10", "Ethernet10", 10, "c"), Wire("sw1.1", "Ethernet1", 1)]

    def blocked(*dead: str, **groups: int) -> set[str]:
        wanted = {wire.port: effect(10, group=groups.get(wire.port)) for wire in more}
        found = rows(more, wanted, dead)
        lost = {name for name, row in found.items() if row.columns["protected"]}
        assert {name for name, row in found.items() if row.blocked} == lost
        return lost

    assert blocked() == {"Ethernet8", "Ethernet10"}
    assert blocked("sw1.7") == {"Ethernet7", "Ethernet10"}
    assert blocked("sw1.7", "sw1.8") == {"Ethernet8", "Ethernet10"}
    assert blocked(Ethernet8=1) == {"Ethernet7", "Ethernet10"}
    assert blocked(Ethernet7=1, Ethernet8=1) == {"Ethernet10"}
    assert blocked(Ethernet7=1, Ethernet8=1, Ethernet9=2, Ethernet10=2) == set()


def test_both_ends_take_the_same_cable_first_whatever_its_ports_are_called(tmp_path: Path) -> None:
    file = tmp_path / "rack.yml"
    crossed = RACK.replace("uplinks: {sw2: 9-10}", "uplinks: {sw2: '10,9'}")
    file.write_text(crossed.replace("PLATFORM", "unmanaged"))
    rack = load_rack(file)
    plan = plan_fabric(rack, kind="ovs")
    first = [
        next(wire.device for wire in wires(plan, rack, here) if wire.leads_to == there)
        for here, there in (("sw1", "sw2"), ("sw2", "sw1"))
    ]
    assert tuple(first) == tuple(end for end, _ in plan.uplinks[0].ends)


def test_a_switch_that_nobody_configures_floods_whatever_comes() -> None:
    columns = plain_rows([Wire("sw1.1", "sw1.1", 1)])["sw1.1"].columns
    assert (columns["vlan_mode"], columns["tag"], columns["trunks"]) == (
        *("trunk", ["set", []]),
        ["set", []],
    )


@given(st.frozensets(st.integers(1, 4094), max_size=6), st.none() | st.integers(1, 4094))
def test_a_port_lets_through_what_it_is_set_to_and_nothing_else(
    tagged: frozenset[int], untagged: int | None
) -> None:
    """Read as Open vSwitch reads it: no trunks at all would mean every VLAN."""
    port = PortEffect(True, untagged, tagged - {untagged})
    columns = PortRow("Ethernet1", (Wire("sw1.1", "Ethernet1", 1),), port).columns
    (tags, trunks), mode = (columns[name][1] for name in ("tag", "trunks")), columns["vlan_mode"]
    passing = set(tags) if mode == "access" else set(trunks)
    assert passing - {NO_VLAN} == port.vlans
    assert mode == "access" or trunks


def test_the_mac_table_leaves_out_the_switch_itself_and_what_blocked_ports_heard() -> None:
    table = """\
 port  VLAN  MAC                Age
LOCAL    10  9e:91:c0:cf:80:47    0
   49    10  02:8b:56:e6:67:08  120
    1     0  02:e9:00:04:c0:60    2
   50  4095  02:8b:56:e6:67:08    1
"""
    assert list(learnt(table)) == [(49, 10, "02:8b:56:e6:67:08"), (1, 0, "02:e9:00:04:c0:60")]


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ios", "eos"])
def test_a_new_switch_is_flat_and_reachable_in_the_phones_vlan(kind: str) -> None:
    ports = port_names(kind, 4)  # type: ignore[arg-type]
    settings = reachable_settings(kind, ports, 10, "10.9.0.3/24")  # type: ignore[arg-type]
    assert {port.untagged for port in effects(settings, kind == "ios").values()} == {10}
    (own,) = own_addresses(settings).items()
    assert own == (10, "10.9.0.3 255.255.255.0" if kind == "ios" else "10.9.0.3/24")


def test_an_interface_of_a_vlan_that_is_gone_or_shut_answers_nobody() -> None:
    settings = reachable_settings("ios", port_names("ios", 4), 10, "10.9.0.3/24")
    gone = settings.copy()
    del gone.vlans[10]
    assert own_addresses(gone) == {}
    settings.interfaces["Vlan10"].shutdown = True
    assert own_addresses(settings) == {}


def test_what_was_saved_is_read_again_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "startup.json"
    assert read_settings(file) is None
    settings = reachable_settings("eos", port_names("eos", 4), 10, "10.9.0.3/24")
    settings.interfaces["Ethernet1"].allowed = frozenset({10, 20})
    settings.users["admin"] = "secret"
    write_settings(file, settings)
    assert read_settings(file) == settings
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("{}")
    with pytest.raises(StandinError, match="no startup configuration"):
        read_settings(file)


def test_rates_are_bits_a_second() -> None:
    assert [rate_bits(rate) for rate in ("100mbit", "1.5gbit", "64kbit")] == [
        *(100_000_000, 1_500_000_000),
        64_000,
    ]


# --- the sockets ----------------------------------------------------------------------------------


def answer_once(folder: Path, *parts: bytes) -> threading.Thread:
    """A socket that answers the first question with these parts and then stays silent."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / rpc.DATABASE))
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        with listener, connection:
            connection.recv(4096)
            for part in parts:
                connection.sendall(part)
            connection.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_an_answer_that_comes_in_parts_is_put_together(tmp_path: Path) -> None:
    whole = json.dumps({"id": 0, "result": [{"rows": [{"a": {}}]}], "error": None}).encode()
    serving = answer_once(tmp_path, whole[:30], whole[30:])
    assert rpc.call(tmp_path, rpc.DATABASE, "transact") == [{"rows": [{"a": {}}]}]
    serving.join()


def test_an_error_and_silence_are_told(tmp_path: Path) -> None:
    serving = answer_once(tmp_path, b'{"id":0,"result":null,"error":"no such bridge"}')
    with pytest.raises(StandinError, match="no such bridge"):
        rpc.call(tmp_path, rpc.DATABASE, "fdb/show", "sw9")
    serving.join()
    with pytest.raises(StandinError, match="does not answer"):
        rpc.call(tmp_path, "other.sock", "fdb/show")
