"""Where phones are plugged in, by what the switches have heard, against the rack file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from fleetctl.rack import Phone, Rack, Switch
from fleetctl.rack.macs import normal_mac
from fleetctl.switches.moves import Exchange, exchanges

type Kind = Literal[
    "swapped",  # two phones, each in the other's port
    "moved",  # on another port of its switch
    "wrong-switch",  # on a port of another switch
    "behind-uplink",  # beyond a switch that is not ours
    "crowded",  # other devices at the phone's own port, or the phone at several
    "missing",  # nowhere, though its switch was asked
    "replaced",  # nowhere, and a stranger at its port: another adapter?
    "not-enrolled",  # its MAC is not known
    "unknown",  # its switch could not be asked
    "stranger",  # a device that is no phone of this rack, where a phone should be or nothing
    "neighbour",  # an uplink leads elsewhere
]


class Spot(NamedTuple):
    """One port of one switch."""

    switch: str
    port: int

    def __str__(self) -> str:
        return f"port {self.port} of {self.switch}"


@dataclass(frozen=True, slots=True)
class View:
    """What one switch has heard: MACs in normal form by port, and who speaks LLDP there.

    Bundles count as their first port. `neighbours` is None where LLDP could not be read.
    """

    macs: Mapping[int, frozenset[str]]
    neighbours: Mapping[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as the rack file says."""

    kind: Kind
    phone: str | None
    spot: Spot | None
    message: str


@dataclass(frozen=True)
class Cabling:
    """All findings, the fewest exchanges of plugs that mend what plugs can mend, and the rest.

    `adoptable` are MACs that stood alone at the port of a phone that has none, or another.
    `behind` are phones that an unmanaged switch of theirs leads to, by its name: the switch is
    right, and at which of its ports they are nobody can tell.
    """

    right: tuple[str, ...]
    findings: tuple[Finding, ...]
    mend: tuple[Exchange[Spot], ...]
    adoptable: Mapping[str, str] = field(default_factory=dict)
    behind: Mapping[str, str] = field(default_factory=dict)


def compare(rack: Rack, views: Mapping[str, View | None]) -> Cabling:
    """Compare what the switches of `views` have heard with `rack`. None: it could not be asked."""
    return _Comparison(rack, views).result()


class _Comparison:
    def __init__(self, rack: Rack, views: Mapping[str, View | None]) -> None:
        self.rack = rack
        self.views = {name: views.get(name) for name in rack.switches}
        self.owner = {normal_mac(phone.mac): phone for phone in rack.phones.values() if phone.mac}
        self.home = {
            Spot(phone.switch, phone.port): phone
            for phone in rack.phones.values()
            if phone.switch and phone.port
        }
        self.uplinks = {
            Spot(name, port) for name, switch in rack.switches.items() for port in switch.uplinks
        }
        self.seen: dict[str, list[Spot]] = {}
        for name, view in self.views.items():
            for port, macs in view.macs.items() if view else ():
                for mac in macs:
                    self.seen.setdefault(mac, []).append(Spot(name, port))

    def result(self) -> Cabling:
        findings, right, adoptable, behind = [], [], {}, {}
        for phone in self.rack.phones.values():
            if switch := self._unmanaged(phone):
                behind[phone.name] = switch
                continue
            found = self._phone(phone)
            if found is None:
                right.append(phone.name)
            elif found.kind != "unknown" or phone.switch:
                findings.append(found)
            mac = self._adoptable(phone, found)
            if mac:
                adoptable[phone.name] = mac
        told = {
            found.spot
            for found in findings
            if found.kind in ("crowded", "replaced", "not-enrolled")
        }
        findings += [*self._strangers(told), *self._neighbours()]
        return Cabling(tuple(right), tuple(findings), tuple(self._mend()), adoptable, behind)

    # --- one phone ------------------------------------------------------------------------------

    def _phone(self, phone: Phone) -> Finding | None:
        home = _home(phone)
        if home is None:
            return Finding("unknown", phone.name, None, f"{phone.name} has no port")
        if not phone.mac:
            what = f"{phone.name} at {home}: its MAC is not known, enrol it"
            return Finding("not-enrolled", phone.name, home, what)
        places = self._places(phone)
        elsewhere = [place for place in places if place != home]
        if home in places:
            return self._at_home(phone, home, elsewhere)
        if elsewhere:
            return self._away(phone, home, elsewhere[0])
        if self.views.get(home.switch) is None and self._toward(phone) in (None, home.switch):
            what = f"{phone.name}: what is at {home} is unknown, {home.switch} was not read"
            return Finding("unknown", phone.name, home, what)
        return self._gone(phone, home)

    def _unmanaged(self, phone: Phone) -> str | None:
        """The phone's switch, where it is unmanaged and the phone is surely behind it."""
        home = _home(phone)
        if home is None or self.rack.switches[home.switch].platform != "unmanaged":
            return None
        is_there = not self._places(phone) and self._toward(phone) == home.switch
        return home.switch if is_there else None

    def _at_home(self, phone: Phone, home: Spot, elsewhere: list[Spot]) -> Finding | None:
        if elsewhere:
            spots = " and ".join(map(str, (home, *elsewhere)))
            what = f"{phone.name} is heard at {spots} at once: a loop, or two devices with one MAC"
            return Finding("crowded", phone.name, home, what)
        others = sorted(self._macs(home) - {normal_mac(phone.mac or "")})
        if others:
            names = ", ".join(self._name(mac) for mac in others)
            what = f"{home} holds {phone.name} and {names}: is a small switch in between?"
            return Finding("crowded", phone.name, home, what)
        return None

    def _away(self, phone: Phone, home: Spot, place: Spot) -> Finding:
        there = self.home.get(place)
        if there and home in self._places(there) and place not in self._places(there):
            what = f"{phone.name} and {there.name} are swapped: {home} and {place}"
            return Finding("swapped", phone.name, place, what)
        what = f"{phone.name} is at {place} instead of {home}"
        kind: Kind = "moved" if place.switch == home.switch else "wrong-switch"
        return Finding(kind, phone.name, place, what)

    def _gone(self, phone: Phone, home: Spot) -> Finding:
        beyond = self._beyond(phone)
        if beyond:
            what = (
                f"{phone.name} is behind the uplink {beyond} ({self._leads_to(beyond)}) "
                f"instead of at {home}"
            )
            return Finding("behind-uplink", phone.name, beyond, what)
        strangers = sorted(self._macs(home) - set(self.owner))
        if len(strangers) == 1:
            what = (
                f"{phone.name} is not heard, and at {home} is {strangers[0]}: if it got another "
                "adapter, adopt it"
            )
            return Finding("replaced", phone.name, home, what)
        blind = [name for name, view in self.views.items() if view is None]
        note = f"; {', '.join(blind)} could not be asked" if blind else ""
        what = f"{phone.name} is not at {home}: is it plugged in, on, and awake?{note}"
        return Finding("missing", phone.name, home, what)

    def _places(self, phone: Phone) -> list[Spot]:
        """Ports that are no uplinks where the phone is heard."""
        if not phone.mac:
            return []
        return [spot for spot in self.seen.get(normal_mac(phone.mac), ()) if not self._up(spot)]

    def _up(self, spot: Spot) -> bool:
        return spot in self.uplinks

    def _beyond(self, phone: Phone) -> Spot | None:
        """The uplink behind which the phone must be, nearest to it.

        An uplink to a switch that was read says nothing: that switch would have named a port.
        """
        spots = [spot for spot in self.seen.get(normal_mac(phone.mac or ""), ()) if self._up(spot)]
        ends = [spot for spot in spots if self.views.get(self._leads_to(spot)) is None]
        return next(iter((*ends, *spots)), None)

    def _toward(self, phone: Phone) -> str | None:
        """Where the uplink leads behind which the phone must be; None where there is none."""
        beyond = self._beyond(phone)
        return self._leads_to(beyond) if beyond else None

    def _leads_to(self, spot: Spot) -> str:
        for bundle in self.rack.switches[spot.switch].bundles:
            if spot.port in bundle.ports:
                return bundle.to
        return f"port {spot.port}"

    def _macs(self, spot: Spot) -> frozenset[str]:
        view = self.views.get(spot.switch)
        return view.macs.get(spot.port, frozenset()) if view else frozenset()

    def _name(self, mac: str) -> str:
        return self.owner[mac].name if mac in self.owner else mac

    def _adoptable(self, phone: Phone, found: Finding | None) -> str | None:
        home = _home(phone)
        if home is None or found is None or found.kind not in ("replaced", "not-enrolled"):
            return None
        macs = self._macs(home)
        strangers = macs - set(self.owner)
        return next(iter(strangers)) if len(macs) == len(strangers) == 1 else None

    # --- the rest -------------------------------------------------------------------------------

    def _strangers(self, told: set[Spot | None]) -> Iterator[Finding]:
        """Devices that nothing else speaks of; on reserved ports they are nobody's business."""
        for mac, spots in sorted(self.seen.items()):
            for spot in spots:
                reserved = spot.port in self.rack.switches[spot.switch].reserved
                if mac in self.owner or self._up(spot) or reserved or spot in told:
                    continue
                home = self.home.get(spot)
                wanted = f", where {home.name} belongs," if home else ""
                what = f"{mac} at {spot}{wanted} is no phone of this rack"
                yield Finding("stranger", None, spot, what)

    def _neighbours(self) -> Iterator[Finding]:
        for name, switch in self.rack.switches.items():
            view = self.views.get(name)
            if view is not None and view.neighbours is not None:
                yield from self._neighbours_of(switch, view.neighbours)

    def _neighbours_of(self, switch: Switch, heard: Mapping[int, str]) -> Iterator[Finding]:
        """LLDP against the rack file; only managed switches of the rack are sure to speak it."""
        hostnames = {other.hostname: name for name, other in self.rack.switches.items()}
        leads = {port: bundle.to for bundle in switch.bundles for port in bundle.ports}
        for port in range(1, switch.ports + 1):
            spot, expected = Spot(switch.name, port), leads.get(port, "")
            said = hostnames.get(heard.get(port, ""), "")
            other = self.rack.switches.get(expected)
            if said == expected or port in switch.reserved:
                continue
            if other and (said or other.platform != "unmanaged"):
                who = heard.get(port, "nobody")
                what = f"uplink {spot} should lead to {expected}, but {who} answers there"
                yield Finding("neighbour", None, spot, what)
            elif said and (expected or port not in switch.uplinks):
                what = f"switch {said} is at {spot}, where the rack file has no uplink to it"
                yield Finding("neighbour", None, spot, what)

    def _mend(self) -> Iterable[Exchange[Spot]]:
        """Only plugs that hold one phone each can be told where to go."""
        wanted: dict[Spot, Spot] = {}
        for phone in self.rack.phones.values():
            home, places = _home(phone), self._places(phone)
            if home and len(places) == 1 and len(self._macs(places[0])) == 1:
                wanted[places[0]] = home
        return exchanges(wanted)


def _home(phone: Phone) -> Spot | None:
    return Spot(phone.switch, phone.port) if phone.switch and phone.port else None
