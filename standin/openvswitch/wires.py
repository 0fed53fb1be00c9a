"""The wires between Open vSwitches, as pure values: what there should be, and what makes it so."""

from __future__ import annotations

from collections.abc import Iterator

from fleetctl.rack import Rack, Switch
from standin.commands import Command
from standin.fabric import (
    FabricPlan,
    Found,
    degraded_rate,
    interface_name,
    shaping,
)
from standin.openvswitch.ports import FIRST_HIDDEN, Wire
from standin.switches.editor import Kind as Speech
from standin.switches.factory import port_names
from standin.switches.state import nominal_mbits

SPEECH: dict[str, Speech] = {"cisco_ios": "ios", "arista_eos": "eos"}
"""Which command line a platform of the rack file has; others have none."""

_MUTE = (
    # The machine itself says and answers nothing by the devices of a switch's ports.
    "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore",
    "[ ! -d /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6",
    "[ ! -d /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6",
)


def interfaces(switch: Switch) -> tuple[str, ...]:
    """What a switch calls its ports, in their order; one without a command line calls them none."""
    if switch.platform not in SPEECH:
        return ()
    return switch.interfaces or port_names(SPEECH[switch.platform], switch.ports)


def wires(plan: FabricPlan, rack: Rack, bridge: str) -> list[Wire]:
    """All that is plugged into one switch: cables to other switches in the rack's order, which is
    the same at both ends, then ports by number."""
    by_name = {interface_name(name): switch for name, switch in rack.switches.items()}
    switch = by_name.get(bridge, Switch(bridge))
    names = interfaces(switch)
    sockets = {interface_name(f"{bridge}.{port}"): port for port in range(1, switch.ports + 1)}
    ends = other_ends(plan)
    hidden = iter(range(FIRST_HIDDEN, FIRST_HIDDEN + len(plan.masters)))
    found = []
    for device, at in plan.masters.items():
        if at == bridge:
            port = sockets.get(device)
            called = names[port - 1] if port and names else device
            far, _ = ends.get(device, ("", ""))
            found.append(Wire(device, called, port or next(hidden), far))
    places = {device: place for place, device in enumerate(ends)}
    return sorted(found, key=lambda wire: (places.get(wire.device, len(places)), wire.number))


def other_ends(plan: FabricPlan) -> dict[str, tuple[str, str]]:
    """For each device that leads to another switch: that switch, and the device there."""
    found: dict[str, tuple[str, str]] = {}
    for uplink in plan.uplinks:
        (left, at_left), (right, at_right) = uplink.ends
        found |= {left: (at_right, right), right: (at_left, left)}
    return found


def build_commands(plan: FabricPlan, rack: Rack, found: Found) -> Iterator[Command]:
    """What brings namespaces, uplinks and the host's cable from `found` to `plan`.

    Devices are left down: their switches say which are up.
    """
    links = found.links or {}
    mtu = ("mtu", str(plan.mtu))
    for space in plan.spaces:
        if found.links is None or space in found.missing:
            yield ("ip", "netns", "add", space)
            yield ("ip", "netns", "exec", space, "sh", "-c", "; ".join(_MUTE))
    for uplink in plan.uplinks:
        (left, at_left), (right, at_right) = uplink.ends
        if left not in links or right not in links:
            # The other half may live on in a namespace that has lost its name.
            halves = [(end, at) for end, at in uplink.ends if end in links]
            yield from (("ip", "-n", plan.space(at), "link", "delete", end) for end, at in halves)
            here, there = plan.space(at_left), plan.space(at_right)
            peer = ("peer", "name", right, *mtu, "netns", there)
            yield ("ip", "-n", here, "link", "add", left, *mtu, "type", "veth", *peer)
            yield from _shape(plan, rack, left, at_left)
            yield from _shape(plan, rack, right, at_right)
    if found.has_host_link and plan.host_port not in links:
        yield ("ip", "link", "delete", plan.host_link)
    if plan.host_port not in links or not found.has_host_link:
        there = plan.space(plan.bridges[0])
        peer = ("peer", "name", plan.host_port, *mtu, "netns", there)
        yield ("ip", "link", "add", plan.host_link, *mtu, "type", "veth", *peer)
        yield ("ethtool", "-K", plan.host_link, "tx", "off")
    yield ("ip", "address", "replace", plan.host_address, "dev", plan.host_link)
    yield ("ip", "link", "set", plan.host_link, "up")


def made(plan: FabricPlan, found: Found) -> list[tuple[str, str]]:
    """Device and switch of each that `build_commands` makes."""
    links = found.links or {}
    cut = [item.ends for item in plan.uplinks if not {end for end, _ in item.ends} <= links.keys()]
    devices = [end for ends in cut for end in ends]
    if plan.host_port not in links or not found.has_host_link:
        devices.append((plan.host_port, plan.bridges[0]))
    return devices


def _shape(plan: FabricPlan, rack: Rack, device: str, bridge: str) -> Iterator[Command]:
    """An uplink carries what a port of its name does; unmanaged ones are taken for 1 Gb/s."""
    if plan.rate is None:
        return
    (wire,) = (wire for wire in wires(plan, rack, bridge) if wire.device == device)
    rate = degraded_rate(plan.rate, nominal_mbits(wire.port))
    where = ("tc", "-n", plan.space(bridge), "qdisc", "replace", "dev", device, "root")
    yield (*where, *shaping(rate))
