"""From the rack file as it was read to a Rack, with every mistake that a schema cannot see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address

from fleetctl.rack import feeding, switching
from fleetctl.rack.document import Document, Location, did_you_mean
from fleetctl.rack.errors import Mistake
from fleetctl.rack.model import (
    PHONES_VLAN_NAME,
    Network,
    Phone,
    Rack,
    Switch,
    Thresholds,
    Versions,
)
from fleetctl.rack.packages import Packages, Upstream
from fleetctl.rack.schema import PhonesFile, RackFile

WIFI_WARNING_PHONES = 8
"""From so many phones on, one Wi-Fi network no longer carries gradients at a useful speed."""


@dataclass(slots=True)
class Builder:
    """Builds one Rack; `mistakes` is complete after `rack()`."""

    document: Document
    file: RackFile
    mistakes: list[Mistake] = field(default_factory=list)
    _groups: frozenset[str | None] = frozenset()
    _names: dict[str, Location] = field(default_factory=dict)
    _addresses: dict[str, tuple[str, Location]] = field(default_factory=dict)
    _ports: dict[tuple[str, int], tuple[str, Location]] = field(default_factory=dict)

    def rack(self) -> Rack:
        file = self.file
        self._groups = frozenset(group.group for group in file.phones)
        switches = {name: self._switch(name) for name in file.switches}
        self.mistakes += switching.neighbour_mistakes(self.document, switches)
        network = self._network()
        phones = {
            phone.name: phone
            for place in range(len(file.phones))
            for phone in self._group(place, switches)
        }
        limits = file.thresholds.model_dump(exclude_none=True)
        guard, mistakes = feeding.guard_limits(self.document, file.guard)
        self.mistakes += mistakes
        rack = Rack(
            name=file.rack,
            network=network,
            phones=phones,
            switches=switches,
            versions=Versions(**file.versions.model_dump()),
            packages=self._packages(),
            thresholds=Thresholds(**limits),
            guard=guard,
            warnings=tuple(self._warnings(len(phones))),
        )
        outlets, mistakes = feeding.build_outlets(self.document, "power", file.power, rack)
        fans, more = feeding.build_outlets(self.document, "fans", file.fans, rack)
        self.mistakes += mistakes + more
        self.mistakes += feeding.starving(self.document, guard, outlets.values())
        return replace(rack, outlets=outlets, fans=fans)

    def _mistake(self, location: Location, what: str, cure: str) -> None:
        self.mistakes.append(self.document.mistake(location, what, cure))

    def _network(self) -> Network:
        file = self.file.network
        for role in ("controller", "services"):
            address = getattr(file, role)
            # Controller and services host may be one machine.
            if address and not (role == "services" and address == file.controller):
                self._take_address(str(address), f"the {role} host", ("network", role))
        for service in ("dhcp", "time"):
            if getattr(file, service) == "ours" and not (file.services or file.controller):
                self._mistake(
                    ("network", service),
                    f"`{service}: ours` needs a machine that serves it",
                    f"add `services: ADDRESS` to network, or write `{service}: theirs`",
                )
        return Network(
            cidr=file.cidr,
            medium=file.medium,
            dhcp=file.dhcp,
            time=file.time,
            controller=str(file.controller) if file.controller else None,
            services=str(file.services) if file.services else None,
            mtu=file.mtu,
            vlan=file.vlan,
            vlans=dict(sorted({file.vlan: PHONES_VLAN_NAME, **file.vlans}.items())),
            snmp_community=file.snmp.community if file.snmp else None,
        )

    def _packages(self) -> Packages:
        file, also = self.file.packages, tuple(self.file.packages.also)
        if file.upstream is None:
            if file.key is not None:
                self._mistake(
                    ("packages", "key"), "a key without an `upstream`", "add it, or drop the key"
                )
            return Packages(also=also)
        if file.key is None:
            self._mistake(
                ("packages", "upstream"),
                "an upstream whose packages nobody can verify",
                "add `key: FILE`, its public key; Termux's are in its package termux-keyring",
            )
            return Packages(also=also)
        key = (self.document.path.parent / file.key).absolute()
        if not key.is_file():
            self._mistake(
                ("packages", "key"),
                f"no file {key} with the repository's public key",
                "put it there; Termux's keys are in its package termux-keyring",
            )
        return Packages(Upstream(file.upstream, key, file.distribution, file.component), also)

    def _switch(self, name: str) -> Switch:
        file, here = self.file.switches[name], ("switches", name)
        if file.address:
            # A switch may be managed in another network than the phones'.
            self._take_address(str(file.address), f"switch {name}", (*here, "address"), False)
        elif file.platform != "unmanaged":
            self._mistake(here, f"switch {name} has no address", "add it, or `platform: unmanaged`")
        switch, mistakes = switching.build_switch(self.document, name, file)
        self.mistakes += mistakes
        return switch

    def _group(self, place: int, switches: dict[str, Switch]) -> Iterable[Phone]:
        group, here = self.file.phones[place], ("phones", place)
        self._group_name(group, here, switches)
        count = len(group.addresses)
        first = len(self._names) + 1
        names = group.names or [f"phone{number:03}" for number in range(first, first + count)]
        ports = self._group_ports(group, here, switches)
        for kind, found in (("names", len(names)), ("ports", len(ports) if ports else count)):
            if found != count:
                self._mistake(
                    (*here, kind), f"{found} {kind} for {count} addresses", "give as many of both"
                )
        spots: list[int | None] = list(ports) if ports else [None] * count
        for name, address, port in zip(names, group.addresses, spots, strict=False):
            self._take_name(name, (*here, "names"), switches)
            self._take_address(str(address), name, (*here, "addresses"))
            if port is not None and group.switch in switches:
                self._take_port(switches[group.switch], port, name, (*here, "ports"))
            yield Phone(
                name=name,
                address=str(address),
                group=group.group,
                model=group.model,
                api_level=group.api_level,
                target=group.target,
                switch=group.switch,
                port=port,
            )

    def _group_name(self, group: PhonesFile, here: Location, switches: dict[str, Switch]) -> None:
        if group.group in switches:
            self._mistake(
                (*here, "group"), f"group `{group.group}` bears a switch's name", "rename one"
            )
        if group.switch is not None and group.switch not in switches:
            self._mistake(
                (*here, "switch"),
                f"no switch `{group.switch}`",
                did_you_mean(group.switch, switches) if switches else "add it under `switches:`",
            )

    def _group_ports(
        self, group: PhonesFile, here: Location, switches: dict[str, Switch]
    ) -> list[int] | None:
        if group.ports is not None and group.switch is None:
            self._mistake((*here, "ports"), "ports without a switch", "add `switch: NAME`")
        if group.ports is None and group.switch in switches:
            self._mistake(
                (*here, "switch"),
                f"phones on switch {group.switch} without ports",
                "add `ports: 1-46`, in the order of the addresses",
            )
        return group.ports

    def _take_name(self, name: str, here: Location, switches: dict[str, Switch]) -> None:
        if name in self._names:
            line = self.document.line(self._names[name])
            self._mistake(here, f"phone {name} twice (first on line {line})", "rename one")
        elif name in switches or name in self._groups:
            self._mistake(here, f"phone {name} bears the name of a group or switch", "rename one")
        self._names.setdefault(name, here)

    def _take_address(self, address: str, owner: str, here: Location, inside: bool = True) -> None:
        number = int(IPv4Address(address))
        cidr = self.file.network.cidr
        if inside and not int(cidr.network_address) < number < int(cidr.broadcast_address):
            edges = (cidr.network_address, cidr.broadcast_address)
            self._mistake(
                here,
                f"address {address} of {owner} is no host address of {cidr}",
                f"choose one from {edges[0] + 1} to {edges[1] - 1}, or correct `cidr:`",
            )
        if address in self._addresses:
            other, there = self._addresses[address]
            self._mistake(
                here,
                f"address {address} of {owner} belongs to {other} already "
                f"(line {self.document.line(there)})",
                "give each its own",
            )
        self._addresses.setdefault(address, (owner, here))

    def _take_port(self, switch: Switch, port: int, owner: str, here: Location) -> None:
        spot = f"port {port} of {switch.name}"
        if not 1 <= port <= switch.ports:
            self._mistake(
                here, f"{owner} on {spot}, which has ports 1 to {switch.ports}", "correct `ports:`"
            )
        for kind, taken in (("an uplink", switch.uplinks), ("reserved", switch.reserved)):
            if port in taken:
                self._mistake(here, f"{owner} on {spot}, which is {kind}", "choose another port")
        if (switch.name, port) in self._ports:
            other, there = self._ports[switch.name, port]
            self._mistake(
                here,
                f"{owner} on {spot}, where {other} is already (line {self.document.line(there)})",
                "give each its own port",
            )
        self._ports.setdefault((switch.name, port), (owner, here))

    def _warnings(self, phones: int) -> Iterable[Mistake]:
        if self.file.network.medium == "wifi" and phones >= WIFI_WARNING_PHONES:
            yield self.document.mistake(
                ("network", "medium"),
                f"{phones} phones on Wi-Fi share its air time",
                f"wire racks of {WIFI_WARNING_PHONES} phones or more, or expect slow training",
            )
