"""The wires of a stand-in rack, as pure values: what there should be, and what makes it so.

Neighbouring switches are joined by a veth, each phone hangs on a veth named after its switch port,
and one more veth leads to the host, which bears the controller's address. Nothing is forwarded: the
rack has no way out. A switch is a plain bridge, all of them in one network namespace, or an Open
vSwitch in a namespace of its own (`standin.openvswitch`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from itertools import pairwise
from typing import Literal

from fleetctl.rack import InputError, Phone, Rack, RackError, Switch
from standin.commands import Command

INTERFACE_NAME_LIMIT = 15
SERVICES = "services"

type Kind = Literal["bridge", "ovs"]
"""Of a fabric: what its switches are."""

SCALED_RATE = "100mbit"
"""Of a port of 1 Gb/s on Open vSwitch, which carries a tenth of real rates."""

# Larger than one segmentation-offloaded packet of 64 KiB with its headers, so that tbf need not
# cut packets up; small enough that 3 ms of the rate is all that a rested link gets on top.
SHAPING_BURST = "80kb"
SHAPING_LATENCY = "50ms"


def shaping(rate: str) -> Command:
    """The queueing discipline, in tc's words, that lets `rate` through and no more."""
    return ("tbf", "rate", rate, "burst", SHAPING_BURST, "latency", SHAPING_LATENCY)


@dataclass(frozen=True, slots=True)
class Port:
    """The cable of one phone, or of the services host, in one bridge.

    `address` is None where DHCP gives it; `inside` is the interface's name in the container.
    """

    name: str
    bridge: str
    mac: str
    inside: str = "eth0"
    address: str | None = None
    shaped: bool = True


@dataclass(frozen=True, slots=True)
class Uplink:
    """A cable between two bridges: interface name and bridge of both ends."""

    ends: tuple[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class FabricPlan:
    """All wires of one rack. `ports` maps host names (phones and `services`) to their port.

    `host_link` is the host's cable at the host, `host_port` its other end, at the first switch.
    """

    namespace: str
    bridges: tuple[str, ...]
    uplinks: tuple[Uplink, ...]
    ports: Mapping[str, Port]
    host_link: str
    host_port: str
    host_address: str
    cidr: IPv4Network
    mtu: int
    rate: str | None = None
    kind: Kind = "bridge"

    @property
    def spaces(self) -> tuple[str, ...]:
        """The network namespaces of all switches."""
        return tuple(dict.fromkeys(self.space(bridge) for bridge in self.bridges))

    def space(self, bridge: str) -> str:
        """The network namespace that a switch is in."""
        return self.namespace if self.kind == "bridge" else f"{self.namespace}.{bridge}"

    @property
    def masters(self) -> dict[str, str]:
        """Every interface that belongs on a bridge, and the bridge."""
        ends = {end: bridge for uplink in self.uplinks for end, bridge in uplink.ends}
        ports = {port.name: port.bridge for port in self.ports.values()}
        return {self.host_port: self.bridges[0], **ends, **ports}


def exchanged(plan: FabricPlan, pairs: Iterable[tuple[str, str]]) -> FabricPlan:
    """`plan` with each pair of hosts plugged into each other's port; adapters keep their MACs."""
    ports = dict(plan.ports)
    for one, other in pairs:
        left, right = ports[one], ports[other]
        ports[one] = replace(left, name=right.name, bridge=right.bridge)
        ports[other] = replace(right, name=left.name, bridge=left.bridge)
    return replace(plan, ports=ports)


@dataclass(frozen=True, slots=True)
class Link:
    """An interface as found in the rack's namespace."""

    master: str | None
    is_up: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What there is of a fabric. `links` is None where the namespace does not exist."""

    links: Mapping[str, Link] | None = None
    has_host_link: bool = False
    missing: frozenset[str] = frozenset()
    """Namespaces that do not exist, where some of several do."""


def interface_name(wanted: str) -> str:
    """`wanted`, or where Linux has no room for it, its head and a hash that keeps it distinct."""
    if len(wanted) <= INTERFACE_NAME_LIMIT:
        return wanted
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:5]
    return f"{wanted[: INTERFACE_NAME_LIMIT - 6]}~{digest}"


def namespace_name(rack: str) -> str:
    return f"pr-{rack}"


def rack_of(space: str) -> str:
    """The rack that a network namespace belongs to, by the namespace's name."""
    return space.removeprefix("pr-").partition(".")[0]


def derived_mac(rack: str, host: str) -> str:
    """A locally administered address, always the same for one host of one rack."""
    digest = hashlib.sha256(f"{rack}/{host}".encode()).hexdigest()
    return ":".join(["02", *(digest[place : place + 2] for place in range(0, 10, 2))])


def check_rate(rate: str) -> str:
    """`rate` if tc understands it as bits a second. Raises InputError."""
    if not re.fullmatch(r"[1-9]\d{0,5}(\.\d+)?[kmg]bit", rate):
        raise InputError(f"`{rate}` is no rate; write one such as 200mbit or 1gbit")
    return rate


def usual_kind(rack: Rack) -> Kind:
    """Open vSwitch where the rack file has a switch to be configured, plain bridges where not."""
    managed = any(switch.platform != "unmanaged" for switch in rack.switches.values())
    return "ovs" if managed else "bridge"


def plan_fabric(rack: Rack, rate: str | None = None, kind: Kind = "bridge") -> FabricPlan:
    """The fabric of `rack`; `rate` in tc's words (`200mbit`) shapes each phone's link both ways.

    On Open vSwitch links are always shaped, to SCALED_RATE without `rate`.
    """
    network = rack.network
    if None in (network.controller, network.services) or network.controller == network.services:
        raise RackError(
            f"rack `{rack.name}`: a stand-in rack needs `controller` and `services` in `network`, "
            "two addresses: the one is this machine, the other a container"
        )
    bridges = tuple(interface_name(name) for name in rack.switches) or ("lan",)
    host_socket, services_socket = _own_sockets(rack)
    ports = {phone.name: _phone_port(rack, phone, bridges[0]) for phone in rack.phones.values()}
    ports[SERVICES] = Port(
        name=interface_name(f"{bridges[0]}.{services_socket}"),
        bridge=bridges[0],
        mac=derived_mac(rack.name, SERVICES),
        inside="rack0",
        address=f"{network.services}/{network.cidr.prefixlen}",
        shaped=False,
    )
    plan = FabricPlan(
        namespace=namespace_name(rack.name),
        bridges=bridges,
        uplinks=tuple(_uplinks(rack, every=kind == "ovs")),
        ports=ports,
        host_link=interface_name(namespace_name(rack.name)),
        host_port=interface_name(f"{bridges[0]}.{host_socket}"),
        host_address=f"{network.controller}/{network.cidr.prefixlen}",
        cidr=network.cidr,
        mtu=network.mtu,
        rate=rate or (SCALED_RATE if kind == "ovs" else None),
        kind=kind,
    )
    if len(plan.masters) != 1 + 2 * len(plan.uplinks) + len(ports):
        raise RackError(f"rack `{rack.name}`: names of switches and phones collide as interfaces")
    return plan


def _own_sockets(rack: Rack) -> tuple[int | str, int | str]:
    """Where controller and services host are plugged in: at ports that nobody configures."""
    first = next(iter(rack.switches.values()), None)
    if first and len(first.reserved) > 1:
        return first.reserved[0], first.reserved[1]
    return "host", SERVICES


def _phone_port(rack: Rack, phone: Phone, first_bridge: str) -> Port:
    bridge = interface_name(phone.switch) if phone.switch else first_bridge
    socket = phone.port if phone.port else phone.name
    return Port(
        name=interface_name(f"{bridge}.{socket}"),
        bridge=bridge,
        # Its adapter's own, whichever place enrolment has given the phone.
        mac=derived_mac(rack.name, phone.name),
    )


def _uplinks(rack: Rack, every: bool) -> Iterator[Uplink]:
    """The cables that the rack file names, and a chain of those switches that it leaves apart.

    Bridges that know no spanning tree get no loop: of several ways between two switches only the
    first has a cable. With `every`, all have it where both ends are managed.
    """
    joined = {name: {name} for name in rack.switches}
    switches = list(rack.switches.values())

    def tie(left: Switch, right: Switch, ports: tuple[int | str, int | str]) -> Iterator[Uplink]:
        apart = joined[left.name] is not joined[right.name]
        trees = every and "unmanaged" not in (left.platform, right.platform)
        if not (apart or trees):
            return
        together = joined[left.name] | joined[right.name]
        joined.update(dict.fromkeys(together, together))
        names = [interface_name(switch.name) for switch in (left, right)]
        ends = [interface_name(f"{name}.{port}") for name, port in zip(names, ports, strict=True)]
        yield Uplink(((ends[0], names[0]), (ends[1], names[1])))

    for place, left in enumerate(switches):
        for right in switches[place + 1 :]:
            for ports in zip(_leading(left, right), _leading(right, left), strict=False):
                yield from tie(left, right, ports)
    free = {item.name: iter(_free_uplinks(item)) for item in switches}
    for left, right in pairwise(switches):
        if joined[left.name] is not joined[right.name]:
            sockets = (next(free[left.name], "right"), next(free[right.name], "left"))
            yield from tie(left, right, sockets)


def _leading(switch: Switch, other: Switch) -> tuple[int, ...]:
    """The ports of a switch that lead to another, as the rack file says."""
    found = [bundle.ports for bundle in switch.bundles if bundle.to == other.name]
    return found[0] if found else ()


def _free_uplinks(switch: Switch) -> list[int]:
    """Uplinks of which the rack file does not say where they lead."""
    taken = {port for bundle in switch.bundles for port in bundle.ports}
    return [port for port in switch.uplinks if port not in taken]


def build_commands(
    plan: FabricPlan, found: Found, unplugged: Collection[str] = ()
) -> Iterator[Command]:
    """What brings namespace, bridges, uplinks and the host's cable from `found` to `plan`.

    Ports of containers are made by `plug_commands`; where they exist, only their bridge and their
    state are set right, `unplugged` hosts keeping theirs down. Nothing comes out where all stands.
    """
    links = found.links or {}
    inside = ("ip", "-n", plan.namespace, "link")
    if found.links is None:
        yield ("ip", "netns", "add", plan.namespace)
    mtu = ("mtu", str(plan.mtu))
    made: set[str] = set()
    for bridge in plan.bridges:
        if bridge not in links:
            yield (*inside, "add", bridge, *mtu, "type", "bridge")
    for uplink in plan.uplinks:
        (left, _), (right, _) = uplink.ends
        if left not in links:
            yield (*inside, "add", left, *mtu, "type", "veth", "peer", "name", right, *mtu)
            made |= {left, right}
    if found.has_host_link and plan.host_port not in links:
        yield ("ip", "link", "delete", plan.host_link)
    if plan.host_port not in links or not found.has_host_link:
        peer = ("peer", "name", plan.host_port, *mtu, "netns", plan.namespace)
        yield ("ip", "link", "add", plan.host_link, *mtu, "type", "veth", *peer)
        made.add(plan.host_port)
    down = {plan.ports[host].name for host in unplugged}
    for bridge in plan.bridges:
        if bridge not in links or not links[bridge].is_up:
            yield (*inside, "set", bridge, "up")
    for name, bridge in plan.masters.items():
        link = Link(None, False) if name in made else links.get(name)
        if link and (link.master != bridge or link.is_up != (name not in down)):
            yield (*inside, "set", name, "master", bridge, "down" if name in down else "up")
    yield ("ip", "address", "replace", plan.host_address, "dev", plan.host_link)
    yield ("ip", "link", "set", plan.host_link, "up")


def plug_commands(
    plan: FabricPlan, host: str, pid: int, unplugged: bool = False
) -> Iterator[Command]:
    """What plugs the container whose first process is `pid` into its port, shaped, and up.

    Whether a port of Open vSwitch is up is not the cable's alone to say: it stays down here.
    """
    port, mtu = plan.ports[host], ("mtu", str(plan.mtu))
    enter = ("nsenter", "-t", str(pid), "-n")
    peer = ("peer", "name", port.inside, "address", port.mac, *mtu, "netns", str(pid))
    space = plan.space(port.bridge)
    yield ("ip", "-n", space, "link", "add", port.name, *mtu, "type", "veth", *peer)
    if plan.kind == "ovs":
        # Checksums that are left to hardware would never be made: frames pass a program.
        yield (*enter, "ethtool", "-K", port.inside, "tx", "off")
    if plan.rate and port.shaped:
        yield from shape_commands(plan, host, pid, plan.rate)
    if port.address:
        yield (*enter, "ip", "address", "add", port.address, "dev", port.inside)
    yield (*enter, "ip", "link", "set", port.inside, "up")
    if plan.kind == "bridge":
        state = "down" if unplugged else "up"
        yield ("ip", "-n", space, "link", "set", port.name, "master", port.bridge, state)


def shape_commands(plan: FabricPlan, host: str, pid: int, rate: str | None) -> Iterator[Command]:
    """What shapes both ends of a plugged container's cable to `rate`; None lets all through."""
    port = plan.ports[host]
    inside = ("nsenter", "-t", str(pid), "-n", "tc", "qdisc")
    outside = ("tc", "-n", plan.space(port.bridge), "qdisc")
    for tool, device in ((inside, port.inside), (outside, port.name)):
        if rate:
            yield (*tool, "replace", "dev", device, "root", *shaping(rate))
        else:
            # Replaced before it is deleted, so that there always is one to delete.
            yield (*tool, "replace", "dev", device, "root", "pfifo")
            yield (*tool, "delete", "dev", device, "root")


def degraded_rate(rate: str | None, megabits: int) -> str:
    """What a link that ought to carry 1000 Mb/s carries at `megabits`, on a rack shaped to `rate`.

    Where links are not shaped it is just that.
    """
    if rate is None:
        return f"{megabits}mbit"
    found = re.fullmatch(r"([\d.]+)([kmg])bit", rate)
    if not found:
        raise InputError(f"`{rate}` is no rate")
    kilobits = float(found[1]) * {"k": 1, "m": 1000, "g": 1_000_000}[found[2]]
    return f"{max(1, round(kilobits * megabits / 1000))}kbit"


def carrier_command(plan: FabricPlan, host: str, plugged: bool) -> Command:
    """What pulls the cable of `host`, or plugs it in again: the carrier goes, or comes."""
    port, state = plan.ports[host], "up" if plugged else "down"
    return ("ip", "-n", plan.space(port.bridge), "link", "set", port.name, state)
