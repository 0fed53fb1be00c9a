"""What the platforms with a command line of Cisco's kind have in common."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Interface
from typing import ClassVar, NamedTuple

from hier_config.child import HConfigChild
from hier_config.platforms.driver_base import HConfigDriverBase, HConfigDriverRules

from fleetctl.switches.config import Config, TornTextError, sections
from fleetctl.switches.errors import UnreadableError
from fleetctl.switches.intent import PortIntent, SwitchIntent
from fleetctl.switches.platforms.base import Platform, Running
from fleetctl.switches.secrets import marker
from fleetctl.switches.vlans import ALL, fold_vlans, parse_vlans

SNMP_LIST = "phonerack-snmp"
"""Access list that lets only the rack's own hosts ask; it marks the community that is ours."""

ALLOWED = "switchport trunk allowed vlan "
ACCESS = "switchport access vlan "
NATIVE = "switchport trunk native vlan "
BUNDLE = "channel-group "

# Of these a place has one: another value replaces the first, and `no` needs no value.
_SINGLE_GLOBAL = (
    *("hostname", "spanning-tree mode", "system mtu", "vtp mode", "snmp-server location"),
)
_SINGLE_INSIDE = (
    *("description", "name", "switchport mode", ACCESS.strip(), NATIVE.strip(), ALLOWED.strip()),
    *("storm-control broadcast level", "channel-group", "mtu", "speed", "duplex", "load-interval"),
)

# Neither wanted nor in the way: encapsulation is a matter of the model, the rest says nothing.
_IGNORED_INSIDE = re.compile(r"switchport$|switchport trunk encapsulation |no ip address$|macro ")


class Driver(HConfigDriverBase):
    """hier_config's rules for us; its own for these platforms negate whole VLAN lists."""

    @staticmethod
    def _instantiate_rules() -> HConfigDriverRules:
        return HConfigDriverRules(indentation=1)

    def idempotent_for(
        self, config: HConfigChild, other_children: Iterable[HConfigChild]
    ) -> HConfigChild | None:
        single = self._single(config)
        # A port leaves one bundle before it joins another.
        if single in (None, BUNDLE.strip()):
            return None
        return next((child for child in other_children if self._single(child) == single), None)

    def negate_with(self, config: HConfigChild) -> str | None:
        single = self._single(config)
        return f"no {single}" if single else None

    def _single(self, config: HConfigChild) -> str | None:
        kinds = _SINGLE_GLOBAL if config.depth() == 1 else _SINGLE_INSIDE
        return next((kind for kind in kinds if config.text.startswith(f"{kind} ")), None)


# First what makes a port harmless, then its VLANs, then what makes them count, then the rest.
_WEIGHTS = (
    (-60, "no switchport"),
    (-50, "no channel-group"),
    (-40, "no spanning-tree bpduguard"),
    (-30, "description"),
    (-25, "name"),
    (-20, ACCESS),
    (-20, ALLOWED),
    (-20, NATIVE),
    (-10, "switchport mode"),
    (10, "no switchport "),
    (50, "channel-group"),
    (90, "no shutdown"),
    (90, "shutdown"),
)


class _Interfaces(NamedTuple):
    """Sections of interfaces, ours in normal form, and what the others use."""

    ours: dict[str, tuple[str, ...]]
    names: set[str]
    other_vlans: set[int]
    other_bundles: set[int]
    own_addresses: dict[int, IPv4Interface | None]


class IosLike(Platform):
    """Reads and writes configuration of Cisco's kind."""

    bundle_interface: ClassVar[str]
    """What an LACP bundle is called, but for its number."""

    prerequisites: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Lines that must stand before a change can be armed or read back, by what they look like."""

    global_lines: ClassVar[re.Pattern[str]]
    """Lines of the top level that are ours, SNMP and VLANs aside."""

    def driver(self) -> HConfigDriverBase:
        return Driver()

    def weight(self, line: str) -> int:
        # The longest beginning counts: `no switchport` alone is not `no switchport trunk …`.
        fitting = [
            (len(start), weight)
            for weight, start in _WEIGHTS
            if line == start or line.startswith(start if start.endswith(" ") else f"{start} ")
        ]
        return max(fitting)[1] if fitting else 0

    # --- what is wanted -------------------------------------------------------------------------

    @abstractmethod
    def intended_globals(self, intent: SwitchIntent) -> Iterator[str]:
        """Lines of the top level beside hostname, VLANs, interfaces and SNMP."""

    @abstractmethod
    def intended_port(self, port: PortIntent, intent: SwitchIntent) -> Iterator[str]:
        """Lines of one port."""

    @abstractmethod
    def community_line(self, community: str) -> str:
        """The line that lets the readers of SNMP_LIST read, and nobody else."""

    def intended(self, intent: SwitchIntent) -> Config:
        config: dict[str, tuple[str, ...]] = {f"hostname {intent.hostname}": ()}
        config |= dict.fromkeys(self.intended_globals(intent), ())
        config |= self._intended_snmp(intent)
        for vlan, name in intent.vlans.items():
            if vlan != 1:
                config[f"vlan {vlan}"] = (f"name {name}",)
        for bundle in intent.bundles:
            header = f"interface {self.bundle_interface}{bundle.number}"
            config[header] = (f"description {bundle.label}", *self.trunk_lines(intent))
        for port in intent.ports:
            if port.role != "reserved":
                config[f"interface {port.interface}"] = tuple(self.intended_port(port, intent))
        return {header: self.normal_lines(lines) for header, lines in config.items()}

    def trunk_lines(self, intent: SwitchIntent, native: bool = False) -> tuple[str, ...]:
        lines = (f"{ALLOWED}{fold_vlans(intent.vlans)}", "switchport mode trunk")
        return (f"{NATIVE}{intent.vlan}", *lines) if native else lines

    def _intended_snmp(self, intent: SwitchIntent) -> dict[str, tuple[str, ...]]:
        if not (intent.snmp_community and intent.readers):
            return {}
        readers = tuple(f"permit {address}" for address in intent.readers)
        return {
            f"ip access-list standard {SNMP_LIST}": readers,
            self.community_line(marker(intent.snmp_community)): (),
            f"snmp-server location {intent.location}": (),
        }

    # --- what is there --------------------------------------------------------------------------

    def read(self, text: str, intent: SwitchIntent) -> Running:
        try:
            return self._read(dict(self._merged(text)), intent)
        except TornTextError as problem:
            what = f"its running configuration cannot be read: {problem}"
            cure = "look at `show running-config` by hand; nothing was sent"
            raise UnreadableError(intent.switch, what, cure) from None

    def _merged(self, text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Sections of the text, VLANs that share one taken apart."""
        for header, lines in sections(text):
            match = re.fullmatch(r"vlan ([\d,-]+)", header)
            if not match:
                yield header, lines
                continue
            for vlan in _vlans(match[1]):
                default = f"name VLAN{vlan:04}"
                yield f"vlan {vlan}", tuple(line for line in lines if line != default)

    def _read(self, whole: Config, intent: SwitchIntent) -> Running:
        names = [line for line in whole if line.startswith("hostname ")]
        if not names:
            raise TornTextError("it names no hostname")
        interfaces = self._interfaces(whole, intent)
        own = {
            self.normal_line(header) or header: lines
            for header, lines in whole.items()
            if self.global_lines.match(header) or (intent.snmp_community and _is_our_snmp(header))
        }
        vlans = {
            header: lines
            for header, lines in whole.items()
            if re.fullmatch(r"vlan \d+", header) and header not in _FIXED_VLANS
        }
        config = {names[0]: ()} | own | vlans
        return Running(
            hostname=names[0].partition(" ")[2],
            config={header: self.normal_lines(lines) for header, lines in config.items()}
            | interfaces.ours,
            interfaces=frozenset(interfaces.names),
            other_vlans=frozenset(interfaces.other_vlans),
            other_bundles=frozenset(interfaces.other_bundles),
            own_addresses=interfaces.own_addresses,
            lacking=tuple(
                line
                for look, lines in self.prerequisites.items()
                if not any(re.match(look, header) for header in whole)
                for line in lines
            ),
        )

    def _interfaces(self, whole: Config, intent: SwitchIntent) -> _Interfaces:
        sections_of = {
            self.long_name(header.removeprefix("interface ")): lines
            for header, lines in whole.items()
            if header.startswith("interface ")
        }
        vlans = {
            int(header.split()[1]) for header in whole if re.fullmatch(r"vlan \d+", header)
        } | {1}
        wanted = {str(bundle.number) for bundle in intent.bundles}
        found = _Interfaces({}, set(sections_of), set(), set(), {})
        bundles: dict[str, set[str]] = {}
        for name, lines in sections_of.items():
            for line in lines:
                if line.startswith(BUNDLE):
                    bundles.setdefault(line.split()[1], set()).add(name)
        for name, lines in sections_of.items():
            number = name.removeprefix(self.bundle_interface)
            members = bundles.get(number, set())
            if match := re.fullmatch(r"Vlan(\d+)", name):
                found.own_addresses[int(match[1])] = _address(lines)
            elif name in intent.owned or (
                members <= intent.owned and (members or number in wanted)
            ):
                found.ours[f"interface {name}"] = self.normal_lines(lines)
            else:
                if number != name:
                    found.other_bundles.add(int(number))
                found.other_vlans.update(_carried(lines, vlans))
        return found

    # --- normal form ----------------------------------------------------------------------------

    @abstractmethod
    def normal_line(self, line: str) -> str | None:
        """The one way to write this line; None where it says nothing."""

    def normal_lines(self, lines: Iterable[str]) -> tuple[str, ...]:
        """Sub-lines of one section in their one way to write them, in a fixed order."""
        allowed: frozenset[int] | None = None
        found: set[str] = set()
        for line in lines:
            if line.startswith(ALLOWED):
                said = line.removeprefix(ALLOWED)
                more = _vlans(said.removeprefix("add "))
                allowed = (allowed or frozenset()) | more if said.startswith("add ") else more
            elif line.startswith((ACCESS, NATIVE)) and line.endswith(" vlan 1"):
                continue
            elif (
                line != "no shutdown"
                and not _IGNORED_INSIDE.match(line)
                and (normal := self.normal_line(line))
            ):
                found.add(normal)
        if allowed is not None and allowed != ALL:
            found.add(f"{ALLOWED}{fold_vlans(allowed)}")
        return tuple(sorted(found))


_FIXED_VLANS = {"vlan 1", *(f"vlan {number}" for number in range(1002, 1006))}


def _vlans(text: str) -> frozenset[int]:
    try:
        return parse_vlans(text)
    except ValueError:
        raise TornTextError(f"`{text}` is no list of VLANs") from None


def _carried(lines: Iterable[str], vlans: set[int]) -> set[int]:
    """VLANs of a port or bundle that is not ours; a trunk without a list carries all."""
    found: set[int] = set()
    trunk = any(line == "switchport mode trunk" for line in lines)
    lists = [line.removeprefix(ALLOWED) for line in lines if line.startswith(ALLOWED)]
    for line in lines:
        if line.startswith((ACCESS, NATIVE)):
            found |= _vlans(line.rpartition(" ")[2])
    for said in lists:
        found |= _vlans(said.removeprefix("add "))
    return found | (vlans if trunk and not lists else set())


def _address(lines: Iterable[str]) -> IPv4Interface | None:
    for line in lines:
        # Cisco writes a mask, Arista a length.
        match = re.fullmatch(r"ip address (\d[\d.]+)(?: (\d[\d.]+)|(/\d+))", line)
        if match:
            return IPv4Interface(f"{match[1]}{match[3] or f'/{match[2]}'}")
    return None


def _is_our_snmp(header: str) -> bool:
    return header.startswith("snmp-server location ") or header.endswith(f" {SNMP_LIST}")
