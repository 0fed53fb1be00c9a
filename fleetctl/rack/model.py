"""The rack as pure values: phones, switches, groups, node sets, ring order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Literal

from fleetctl.rack.errors import Mistake
from fleetctl.rack.outlets import GuardLimits, Outlet
from fleetctl.rack.packages import Packages

type Medium = Literal["ethernet", "wifi"]
type Dhcp = Literal["ours", "theirs"]
type Time = Literal["ours", "theirs"]
type Platform = Literal["unmanaged", "cisco_ios", "arista_eos"]
type OpenMpiSeries = Literal["5.0", "4.1"]

PHONE_PORT = 8022
"""Where Termux's sshd listens."""


PHONES_VLAN_NAME = "phones"


@dataclass(frozen=True, slots=True)
class Network:
    """The one network that all phones share. `mtu` in bytes.

    `vlan` is the phones' VLAN; `vlans` names every VLAN that uplinks carry, that one included.
    `snmp_community` is the name under which vault or environment hold the community.
    """

    cidr: IPv4Network
    medium: Medium
    dhcp: Dhcp = "theirs"
    time: Time = "theirs"
    controller: str | None = None
    services: str | None = None
    mtu: int = 1500
    vlan: int = 1
    vlans: Mapping[int, str] = field(default_factory=lambda: {1: PHONES_VLAN_NAME})
    snmp_community: str | None = None


@dataclass(frozen=True, slots=True)
class SwitchLogin:
    """Who logs in on a switch. Passwords are names that vault or environment resolve."""

    user: str = "admin"
    password: str = "switch_password"  # noqa: S105  a name, not a password
    enable: str | None = None


@dataclass(frozen=True, slots=True)
class Bundle:
    """Uplink ports that lead to one neighbour: another switch, or whatever `to` says.

    More than one port make an LACP bundle.
    """

    to: str
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch; `ports` counts all of them, uplinks and reserved ones included.

    Uplinks in no bundle are trunks by themselves. `interfaces` holds the switch's own names of
    its ports 1 to `ports`; empty means the platform's usual ones.
    """

    name: str
    platform: Platform = "unmanaged"
    address: str | None = None
    ports: int = 48
    uplinks: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()
    bundles: tuple[Bundle, ...] = ()
    interfaces: tuple[str, ...] = ()
    login: SwitchLogin = SwitchLogin()

    @property
    def hostname(self) -> str:
        """The name that the switch itself bears: hostnames have no underscores."""
        return self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Phone:
    """One phone. Its identity is the serial; serial, MAC and API level come from enrolment, and
    whether adb is still open on the network, as enrolment leaves it on the way to the wire.

    A place of the rack file that no phone has taken yet, or that a retired one has left, is not
    `enrolled`.
    """

    name: str
    address: str
    group: str | None = None
    model: str | None = None
    api_level: int | None = None
    target: str = "termux-aarch64"
    switch: str | None = None
    port: int | None = None
    serial: str | None = None
    mac: str | None = None
    enrolled: bool = True
    adb_open: bool = False

    @property
    def waits_for_wire(self) -> bool:
        """Whether it was enrolled by adb and has not been met in the rack's network since.

        A known adapter proves nothing: switches tell of it, and a phone keeps it when it is reset.
        """
        return self.serial is not None and (self.adb_open or self.mac is None)

    @property
    def met(self) -> bool:
        """Whether its place in the rack's network is known and proven."""
        return self.mac is not None and not self.adb_open


@dataclass(frozen=True, slots=True)
class Versions:
    """What phones have. A rack whose `torch` is "none" trains nothing, but runs MPI programs."""

    openmpi: OpenMpiSeries = "5.0"
    torch: Literal["any", "none"] = "any"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits of the checks. `min_goodput_mbits`: None is what is usual for the medium."""

    min_free_disk_bytes: int = 1 << 30
    min_free_memory_bytes: int = 512 << 20
    max_clock_skew_seconds: float = 30.0
    max_temperature_celsius: float = 45.0
    max_load_per_core: float = 2.0
    min_charge_ratio: float = 0.2
    max_charge_ratio: float = 0.95
    max_loss_ratio: float = 0.01
    min_goodput_mbits: float | None = None
    min_sustained_ratio: float = 0.6
    burn_in_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Rack:
    """A whole rack. `phones` and `switches` keep the order of the rack file."""

    name: str
    network: Network
    phones: Mapping[str, Phone]
    switches: Mapping[str, Switch] = field(default_factory=dict)
    versions: Versions = Versions()
    packages: Packages = field(default_factory=Packages)
    thresholds: Thresholds = Thresholds()
    outlets: Mapping[str, Outlet] = field(default_factory=dict)
    fans: Mapping[str, Outlet] = field(default_factory=dict)
    """Fans, switched like outlets, and the phones that they cool."""
    guard: GuardLimits = field(default_factory=GuardLimits)
    warnings: tuple[Mistake, ...] = ()
    left: Mapping[str, Phone] = field(default_factory=dict)
    """Phones that are enrolled and have no place in the rack file any more: to be retired."""

    @property
    def enrolled(self) -> list[str]:
        """The places that have a phone, in rack order."""
        return [phone.name for phone in self.phones.values() if phone.enrolled]

    @property
    def groups(self) -> dict[str, list[str]]:
        """The node groups that the rack file makes, under the names that Ansible uses too.

        A place without a phone is in `empty` only.
        """
        members: dict[str, list[str]] = {"phones": [], "empty": []}
        members |= {name: [] for name in self.switches}
        for phone in self.phones.values():
            groups = ("phones", phone.switch, phone.group) if phone.enrolled else ("empty",)
            for group in groups:
                if group:
                    members.setdefault(group, []).append(phone.name)
        return members

    def ring(self, names: Iterable[str] | None = None) -> list[str]:
        """`names`, else all phones, in ring order: switch by switch, port by port.

        Neighbours in the ring then share a switch, and the ring crosses each uplink once. Phones
        without a switch come last, in rack order.
        """
        switches = {name: place for place, name in enumerate(self.switches)}
        order = {name: place for place, name in enumerate(self.phones)}

        def place(name: str) -> tuple[int, int, int]:
            phone = self.phones[name]
            switch = switches[phone.switch] if phone.switch else len(switches)
            return (switch, phone.port or 0, order[name])

        return sorted(self.enrolled if names is None else names, key=place)

    @property
    def switch_of(self) -> dict[str, str]:
        """Phone -> the switch that it hangs on, where one is known."""
        return {phone.name: phone.switch for phone in self.phones.values() if phone.switch}

    def select(self, node_set: str, groups: Mapping[str, Iterable[str]] | None = None) -> list[str]:
        """The phones of a node set such as `phone[001-138]!@drained`, in rack order.

        `groups` adds groups from outside the rack file, such as `drained` from the state, which may
        remember phones that the rack has no more. Raises RackError for a name or group that the
        rack does not have.
        """
        from fleetctl.rack.nodesets import resolve

        more = {
            group: [name for name in members if name in self.phones]
            for group, members in (groups or {}).items()
        }
        return resolve(node_set, list(self.phones), {**self.groups, **more})
