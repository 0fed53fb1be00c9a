"""What a stand-in switch is set to do, and what follows from it for each port. Pure values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

type Mode = Literal["access", "trunk", "dynamic auto"]

ALL_VLANS = frozenset(range(1, 4095))


@dataclass(slots=True)
class Interface:
    """One port, bundle or VLAN interface. `other` keeps lines that have no effect here."""

    description: str = ""
    mode: Mode = "dynamic auto"
    access_vlan: int = 1
    native_vlan: int = 1
    allowed: frozenset[int] = ALL_VLANS
    shutdown: bool = False
    portfast: bool = False
    bpduguard: bool = False
    storm_level: str = ""
    group: int | None = None
    address: str = ""
    mtu_bytes: int = 0
    other: tuple[str, ...] = ()

    def copy(self) -> Interface:
        return replace(self)


@dataclass(slots=True)
class Settings:
    """A whole configuration. `interfaces` keeps the order in which the switch shows them."""

    hostname: str
    interfaces: dict[str, Interface]
    vlans: dict[int, str] = field(default_factory=dict)
    vtp: Literal["server", "transparent"] = "transparent"
    spanning_tree: str = "pvst"
    lldp: bool = False
    mtu_bytes: int = 1500
    archive_path: str = ""
    snmp_communities: dict[str, str] = field(default_factory=dict)
    snmp_location: str = ""
    access_lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    enable_secret: str = ""
    other: tuple[str, ...] = ()

    def copy(self) -> Settings:
        return replace(
            self,
            interfaces={name: port.copy() for name, port in self.interfaces.items()},
            vlans=dict(self.vlans),
            snmp_communities=dict(self.snmp_communities),
            access_lists=dict(self.access_lists),
            users=dict(self.users),
        )


@dataclass(frozen=True, slots=True)
class PortEffect:
    """What the data plane must do at one port; `untagged` is None where untagged frames go.

    `speed_mbits` is what the port is held to, if anything; frames of more than `mtu_bytes` do not
    pass.
    """

    up: bool
    untagged: int | None
    tagged: frozenset[int]
    group: int | None = None
    speed_mbits: int | None = None
    mtu_bytes: int | None = None

    @property
    def vlans(self) -> frozenset[int]:
        """All VLANs that pass here."""
        return self.tagged | ({self.untagged} if self.untagged is not None else set())


def nominal_mbits(interface: str) -> int:
    """What a port of this name can do."""
    return 10_000 if interface.startswith("TenGigabit") else 1_000


EOS_MTU_BYTES = 9214
"""What it switches, whatever the MTU of its interfaces is set to."""

BUNDLED = ("mode", "access_vlan", "native_vlan", "allowed")
"""What all members of an IOS bundle must have in common with it."""


def effects(settings: Settings, strict_bundles: bool) -> dict[str, PortEffect]:
    """What each physical port does. A VLAN that does not exist passes nowhere.

    With `strict_bundles`, IOS's way, a member that is set otherwise than its bundle is suspended;
    without, the members' own settings do not count.
    """
    known = {1, *settings.vlans}
    bundles = {
        name.lower(): port
        for name, port in settings.interfaces.items()
        if name.lower().startswith("port-channel")
    }
    found = {}
    for name, port in settings.interfaces.items():
        if name.lower().startswith(("port-channel", "vlan", "management")):
            continue
        ruling = bundles.get(f"port-channel{port.group}", port)
        alike = all(getattr(port, item) == getattr(ruling, item) for item in BUNDLED)
        up = not (port.shutdown or ruling.shutdown) and (alike or not strict_bundles)
        speed = next((int(line[6:]) for line in port.other if line.startswith("speed ")), None)
        mtu = settings.mtu_bytes if strict_bundles else EOS_MTU_BYTES
        if ruling.mode == "trunk":
            native = ruling.native_vlan
            passing = ruling.allowed & known
            untagged = native if native in passing else None
            effect = PortEffect(up, untagged, passing - {native}, port.group, speed, mtu)
        else:
            vlan = ruling.access_vlan if ruling.access_vlan in known else None
            effect = PortEffect(up, vlan, frozenset(), port.group, speed, mtu)
        found[name] = effect
    return found


def own_addresses(settings: Settings) -> dict[int, str]:
    """The switch's own address in each VLAN that has one, as it was typed."""
    known = {1, *settings.vlans}
    return {
        int(name[4:]): port.address
        for name, port in settings.interfaces.items()
        if name.startswith("Vlan") and port.address and not port.shutdown and int(name[4:]) in known
    }
