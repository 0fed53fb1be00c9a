"""The wires of a stand-in rack: planned as values, built only where something is missing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.rack import InputError, Rack, RackError, load_rack
from standin.fabric import (
    INTERFACE_NAME_LIMIT,
    FabricPlan,
    Found,
    Link,
    build_commands,
    check_rate,
    derived_mac,
    exchanged,
    interface_name,
    plan_fabric,
    plug_commands,
)

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def rack() -> Rack:
    return load_rack(PROJECT / "inventory/standin.yml")


@pytest.fixture(scope="module")
def plan(rack: Rack) -> FabricPlan:
    return plan_fabric(rack)


def whole(plan: FabricPlan) -> Found:
    """What is found of a fabric that stands."""
    links = {name: Link(bridge, True) for name, bridge in plan.masters.items()}
    return Found(links | {bridge: Link(None, True) for bridge in plan.bridges}, True)


def test_each_switch_is_a_bridge_and_each_port_bears_its_switch_and_number(
    plan: FabricPlan,
) -> None:
    assert plan.bridges == ("sw1", "sw2")
    assert plan.ports["phone001"].name == "sw1.1"
    assert plan.ports["phone006"].name == "sw2.3"
    assert plan.ports["phone006"].bridge == "sw2"


def test_neighbouring_switches_are_joined_at_their_uplink_ports(plan: FabricPlan) -> None:
    assert [uplink.ends for uplink in plan.uplinks] == [(("sw1.49", "sw1"), ("sw2.49", "sw2"))]


def test_a_switch_between_two_others_uses_its_next_uplink_port() -> None:
    rack = load_rack(PROJECT / "examples/racks/paper-138.yml")
    network = replace(rack.network, controller="10.138.0.1", services="10.138.0.2")
    ends = [uplink.ends for uplink in plan_fabric(replace(rack, network=network)).uplinks]
    names = [name for pair in ends for name, _ in pair]
    assert len(ends) == len(rack.switches) - 1
    assert len(set(names)) == len(names)


def test_the_services_host_has_a_static_address_and_phones_wait_for_dhcp(
    rack: Rack, plan: FabricPlan
) -> None:
    assert plan.ports["services"].address == f"{rack.network.services}/24"
    assert all(plan.ports[phone].address is None for phone in rack.phones)


def test_a_rack_without_switches_hangs_on_one_bridge(rack: Rack) -> None:
    phones = {name: replace(phone, switch=None, port=None) for name, phone in rack.phones.items()}
    plan = plan_fabric(replace(rack, switches={}, phones=phones))
    assert plan.bridges == ("lan",)
    assert plan.uplinks == ()
    assert {port.bridge for port in plan.ports.values()} == {"lan"}


@pytest.mark.parametrize("controller", [None, "10.138.0.2"])
def test_controller_and_services_host_need_an_address_each(
    rack: Rack, controller: str | None
) -> None:
    network = replace(rack.network, controller=controller)
    with pytest.raises(RackError, match="needs `controller` and `services`"):
        plan_fabric(replace(rack, network=network))


def test_a_virgin_machine_gets_everything_and_bridges_come_before_what_hangs_on_them(
    plan: FabricPlan,
) -> None:
    lines = [" ".join(command) for command in build_commands(plan, Found())]
    assert lines[0] == "ip netns add pr-standin"
    bridge = next(i for i, line in enumerate(lines) if " add sw2 " in line)
    joined = next(i for i, line in enumerate(lines) if " set sw2.49 master sw2 up" in line)
    assert bridge < joined
    assert "ip address replace 10.138.0.1/24 dev pr-standin" in lines


def test_a_fabric_that_stands_is_left_alone(plan: FabricPlan) -> None:
    changes = [command for command in build_commands(plan, whole(plan)) if "add" in command]
    assert changes == []
    inside = [command for command in build_commands(plan, whole(plan)) if "-n" in command]
    assert inside == []


@given(st.data())
def test_whatever_is_missing_is_made_again_and_nothing_else(data: st.DataObject) -> None:
    plan = plan_fabric(load_rack(PROJECT / "inventory/standin.yml"))
    found = whole(plan)
    assert found.links is not None
    gone = data.draw(st.sets(st.sampled_from(plan.bridges)))
    links = {
        name: Link(None if link.master in gone else link.master, link.is_up)
        for name, link in found.links.items()
        if name not in gone
    }
    commands = list(build_commands(plan, Found(links, True)))
    made = {command[command.index("add") + 1] for command in commands if "add" in command}
    moved = {command[command.index("set") + 1] for command in commands if "master" in command}
    assert made == gone
    assert moved == {name for name, bridge in plan.masters.items() if bridge in gone}


def test_an_unplugged_phone_stays_unplugged_when_the_fabric_is_mended(plan: FabricPlan) -> None:
    found = whole(plan)
    commands = [" ".join(c) for c in build_commands(plan, found, unplugged={"phone002"})]
    assert "ip -n pr-standin link set sw1.2 master sw1 down" in commands


def test_half_of_the_hosts_cable_is_replaced_by_a_whole_one(plan: FabricPlan) -> None:
    found = whole(plan)
    assert found.links is not None
    links = {name: link for name, link in found.links.items() if name != plan.host_port}
    lines = [" ".join(command) for command in build_commands(plan, Found(links, True))]
    assert lines.index("ip link delete pr-standin") < next(
        place for place, line in enumerate(lines) if line.startswith("ip link add pr-standin")
    )


def test_links_are_shaped_in_both_directions_before_they_come_up(rack: Rack) -> None:
    plan = plan_fabric(rack, rate="200mbit")
    lines = [" ".join(command) for command in plug_commands(plan, "phone001", 4711)]
    shaped = [place for place, line in enumerate(lines) if "tbf rate 200mbit" in line]
    up = [place for place, line in enumerate(lines) if line.endswith(" up")]
    assert [("dev eth0" in lines[place], "dev sw1.1" in lines[place]) for place in shaped] == [
        (True, False),
        (False, True),
    ]
    assert max(shaped) < min(up)


def test_the_services_hosts_link_is_not_shaped(rack: Rack) -> None:
    plan = plan_fabric(rack, rate="200mbit")
    assert not any("tbf" in command for command in plug_commands(plan, "services", 4711))


@given(st.text(st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=1, max_size=40))
def test_interface_names_fit_into_linux(name: str) -> None:
    assert len(interface_name(name)) <= INTERFACE_NAME_LIMIT


def test_long_names_that_begin_alike_stay_distinct() -> None:
    assert interface_name("pr-rack-under-test-1") != interface_name("pr-rack-under-test-2")


@given(st.integers(0, 255), st.integers(0, 255))
def test_addresses_of_adapters_are_local_unicast_and_keep_to_their_phone(a: int, b: int) -> None:
    macs = derived_mac("standin", f"phone{a}"), derived_mac("standin", f"phone{b}")
    assert (macs[0] == macs[1]) == (a == b)
    assert re.fullmatch(r"02(:[0-9a-f]{2}){5}", macs[0])


@pytest.mark.parametrize("rate", ["200", "fast", "200mbps", "-1mbit", "200mbit; true", "0mbit"])
def test_a_rate_that_tc_would_misread_is_refused(rate: str) -> None:
    with pytest.raises(InputError, match="is no rate"):
        check_rate(rate)


def test_phones_in_each_others_port_keep_their_adapters(plan: FabricPlan) -> None:
    swapped = exchanged(plan, [("phone001", "phone006")])
    one, other = swapped.ports["phone001"], swapped.ports["phone006"]
    assert (one.name, one.bridge) == ("sw2.3", "sw2")
    assert (other.name, other.bridge) == ("sw1.1", "sw1")
    assert one.mac == plan.ports["phone001"].mac
    assert swapped.masters == plan.masters
    assert exchanged(swapped, [("phone006", "phone001")]) == plan
