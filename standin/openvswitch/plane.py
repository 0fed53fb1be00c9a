"""The ports behind one command line, where they are those of an Open vSwitch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Interface

from standin.errors import StandinError
from standin.openvswitch.bridge import SHUT, SPEED, Bridge, Device
from standin.openvswitch.ports import FIRST_HIDDEN, PortRow, Wire, rows
from standin.switches.plane import Counters, Learnt, Neighbour
from standin.switches.state import PortEffect, nominal_mbits

TREE_SECONDS, CARRIER_SECONDS, DEVICE_SECONDS = 1.0, 0.1, 0.5
"""Tables ask about every port: what was seen so recently is not looked at again."""

NOTHING = Device(Counters())

log = logging.getLogger(__name__)


@dataclass
class OvsPlane:
    """`vlan` is that of ports which the switch does not know: controller and services host.

    `nominal_rate` in bits a second is what a device of full speed is shaped to; `heard` tells of
    devices that lead to other switches which hostname and port answer there by LLDP, and `shape`
    holds the phone at a device to its speed, where one is noted.
    """

    bridge: Bridge
    wires: Sequence[Wire]
    vlan: int
    nominal_rate: int
    heard: Callable[[str], tuple[str, str] | None]
    shape: Callable[[str], None]
    _rows: dict[str, PortRow] = field(default_factory=dict)
    _effects: dict[str, PortEffect] = field(default_factory=dict)
    _own: tuple[int, str] | None = None
    _dead: frozenset[str] = frozenset()
    _said: str = ""
    _ticked: float = 0.0
    _carriers: tuple[float, frozenset[str]] = (0.0, frozenset())
    _seen: tuple[float, dict[str, Device]] = (0.0, {})

    def __post_init__(self) -> None:
        self._devices = {wire.port: wire.device for wire in self.wires}
        self._ports = {wire.number: wire.port for wire in self.wires if wire.number < FIRST_HIDDEN}

    # --- settings -------------------------------------------------------------------------------

    def apply(self, effects: Mapping[str, PortEffect]) -> None:
        """A switch whose container is gone does nothing; another gets all of it."""
        try:
            self._apply(effects)
        except StandinError as problem:
            self._warn(problem)
            self.forget()

    def _apply(self, effects: Mapping[str, PortEffect]) -> None:
        hidden = PortEffect(True, self.vlan, frozenset())
        known = {wire.port: hidden for wire in self.wires if wire.number >= FIRST_HIDDEN}
        wanted = rows(self.wires, {**effects, **known}, self._dead)
        if wanted == self._rows and effects == self._effects:
            return
        # What is shut goes down before, and comes up after, its VLANs change.
        self._note(effects, up=False)
        if _shape(wanted) == _shape(self._rows):
            changed = [row for name, row in wanted.items() if self._rows[name] != row]
            self.bridge.database.update_ports(changed)
        else:
            self.bridge.database.set_ports(wanted, self.bridge.name)
        self._note(effects, up=True)
        self._set_mtus(effects)
        self._rows, self._effects = wanted, dict(effects)
        self._seen, self._carriers = (0.0, {}), (0.0, frozenset())

    def tick(self) -> None:
        """Take another cable to a switch where one has lost its carrier."""
        if not self._effects or time.monotonic() - self._ticked < TREE_SECONDS:
            return
        self._ticked = time.monotonic()
        self._see_carriers()
        alive = self._carriers[1]
        dead = frozenset(wire.device for wire in self.wires if wire.leads_to) - alive
        if dead != self._dead:
            self._dead = dead
            self.apply(self._effects)

    def forget(self) -> None:
        """Somebody may have changed what is there: the next `apply` does all of it."""
        self._rows, self._effects, self._own = {}, {}, None

    def _note(self, effects: Mapping[str, PortEffect], up: bool) -> None:
        changed: dict[str, dict[str, str | None]] = {}
        held = []
        for port, effect in effects.items():
            device, before = self._devices.get(port), self._effects.get(port)
            if device is None or effect.up != up:
                continue
            if before is None or before.up != up:
                changed[device] = {SHUT: None if up else "yes"}
            if before is None or before.speed_mbits != effect.speed_mbits:
                speed = str(effect.speed_mbits) if effect.speed_mbits else None
                changed.setdefault(device, {})[SPEED] = speed
                if before or speed:
                    held.append(device)
        if changed:
            self.bridge.note(changed)
        for device in held:
            self.shape(device)

    def _set_mtus(self, effects: Mapping[str, PortEffect]) -> None:
        changed = {
            self._devices[port]: effect.mtu_bytes
            for port, effect in effects.items()
            if port in self._devices
            and effect.mtu_bytes
            and (port not in self._effects or self._effects[port].mtu_bytes != effect.mtu_bytes)
        }
        self.bridge.set_mtu(changed)

    def own(self, addresses: Mapping[int, str]) -> None:
        """One is all that a switch here has: that of the lowest VLAN."""
        own = min(addresses.items()) if addresses else None
        if own == self._own and self._own is not None:
            return
        vlan, address = own or (None, "")
        try:
            ip = IPv4Interface(address.replace(" ", "/")) if address else None
            self.bridge.set_own(vlan, ip)
            self._own = own
        except (StandinError, ValueError) as problem:
            self._warn(problem)

    # --- what is there --------------------------------------------------------------------------

    def _device(self, port: str) -> Device:
        if time.monotonic() - self._seen[0] > DEVICE_SECONDS:
            self._seen = (time.monotonic(), self._look(self.bridge.devices) or {})
        return self._seen[1].get(self._devices.get(port, ""), NOTHING)

    def _look[Answer](self, look: Callable[[], Answer]) -> Answer | None:
        try:
            return look()
        except StandinError as problem:
            self._warn(problem)
            return None

    def _warn(self, problem: Exception) -> None:
        """Once: whoever looks, looks again and again."""
        if str(problem) != self._said:
            self._said = str(problem)
            log.warning("%s: %s", self.bridge.name, problem)

    def linked(self, port: str) -> bool:
        return self._devices.get(port) in self._alive()

    def _alive(self) -> frozenset[str]:
        """Devices that have a carrier; whoever asks about many of them asks once."""
        if time.monotonic() - self._carriers[0] > CARRIER_SECONDS:
            self._see_carriers()
        return self._carriers[1]

    def _see_carriers(self) -> None:
        found = frozenset(self._look(self.bridge.carriers) or ())
        self._carriers = (time.monotonic(), found)

    def speed_mbits(self, port: str) -> int:
        """A tenth of the rate, or less, is 100 Mb/s; what else slows a link is not the port's."""
        device, nominal = self._device(port), nominal_mbits(port)
        if not self.linked(port):
            return 0
        slow = device.rate is not None and 10 * device.rate <= self.nominal_rate
        return 100 if slow else nominal

    def learnt(self) -> list[Learnt]:
        found = [
            Learnt(vlan, mac, self._ports[number])
            for number, vlan, mac in self._look(self.bridge.mac_table) or []
            if number in self._ports
        ]
        # It forgets with time; a real one forgets with the carrier.
        alive = self._alive()
        return sorted(item for item in found if self._devices.get(item.port) in alive)

    def neighbours(self) -> list[Neighbour]:
        found, alive = [], self._alive()
        for wire in self.wires:
            answer = self.heard(wire.device) if wire.leads_to and wire.device in alive else None
            if answer:
                found.append(Neighbour(wire.port, *answer))
        return found

    def counters(self, port: str) -> Counters:
        return self._device(port).counters

    def manageable(self) -> bool:
        """What does not reach it over its ports does not reach it at all."""
        return True


def _shape(found: Mapping[str, PortRow]) -> dict[str, tuple[Wire, ...]]:
    """Which devices make which ports."""
    return {name: row.wires for name, row in found.items()}
