"""The command lines of a rack's switches, each in front of its Open vSwitch."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh
from pydantic import TypeAdapter, ValidationError

from fleetctl.rack import InputError, Switch
from fleetctl.rack.document import did_you_mean
from fleetctl.rack.files import write_atomic
from standin.daemon.desk import Document
from standin.errors import StandinError
from standin.fabric import interface_name
from standin.faults import link_mbits, read_faults
from standin.openvswitch.enrolment import PASSWORD, host_key
from standin.openvswitch.fabric import OvsFabric
from standin.openvswitch.plane import OvsPlane
from standin.openvswitch.wires import SPEECH, interfaces, other_ends
from standin.rig import Rig
from standin.switches.device import Device, RunningClock
from standin.switches.factory import reachable_settings
from standin.switches.knobs import turned, written
from standin.switches.server import SwitchServer
from standin.switches.state import Settings

SSH_PORT, SNMP_PORT = 22, 161
STARTUP = "startup.json"
ADAPTER_WATTS = 6.5
"""What a phone's adapter takes from a port that feeds it."""


@dataclass
class Played:
    """All command lines of one rack, until they are stopped."""

    rig: Rig
    ovs: OvsFabric
    devices: dict[str, Device] = field(default_factory=dict)
    clocks: dict[str, RunningClock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._spaces = self._identities()
        self._databases: dict[str, Any] = {}
        self._ends = other_ends(self.rig.plan)
        self._server = SwitchServer()
        try:
            for name, switch in self.rig.rack.switches.items():
                if switch.platform in SPEECH:
                    self._add(interface_name(name), switch)
        except BaseException:
            self.stop()
            raise

    def _identities(self) -> dict[str, int]:
        found = {}
        for space in self.rig.plan.spaces:
            with suppress(FileNotFoundError):
                found[space] = (Path("/run/netns") / space).stat().st_ino
        return found

    def stands(self) -> bool:
        return self._identities() == self._spaces

    def _add(self, bridge: str, switch: Switch) -> None:
        speech, names = SPEECH[switch.platform], interfaces(switch)
        network = self.rig.rack.network
        address = f"{switch.address}/{network.cidr.prefixlen}"
        clock = self.clocks[switch.name] = RunningClock()
        kept, plane = self.ovs.root / bridge / STARTUP, self._plane(bridge)
        device = Device(
            kind=speech,
            ports=names,
            plane=plane,
            accounts={switch.login.user: PASSWORD},
            clock=clock.now,
            enable_password=PASSWORD if switch.login.enable else None,
            comes_with=read_settings(kept)
            or reachable_settings(speech, names, network.vlan, address),
        )
        device.on_save.append(lambda settings: write_settings(kept, settings))
        device.on_tick.append(plane.tick)
        self.devices[bridge] = device
        self._databases[bridge] = self._database(bridge)
        space = self.ovs.bridges[bridge].space
        key = asyncssh.read_private_key(str(host_key(self.ovs.root / bridge)))
        self._server.serve(device, key=key, listener=bound(space, socket.SOCK_STREAM, SSH_PORT))
        self._server.serve_snmp(device, listener=bound(space, socket.SOCK_DGRAM, SNMP_PORT))

    def _plane(self, bridge: str) -> OvsPlane:
        return OvsPlane(
            bridge=self.ovs.bridges[bridge],
            wires=self.ovs.wires(bridge),
            vlan=self.rig.rack.network.vlan,
            nominal_rate=rate_bits(self.rig.plan.rate),
            heard=self._heard,
            shape=self._shape,
        )

    def _heard(self, device: str) -> tuple[str, str] | None:
        bridge, far = self._ends.get(device, ("", ""))
        other = self.devices.get(bridge)
        if other is None or other.down or not other.running.lldp:
            return None
        port = next(wire.port for wire in self.ovs.wires(bridge) if wire.device == far)
        return other.running.hostname, port

    def _shape(self, device: str) -> None:
        """A phone's cable carries what its port is held to, or what its fault lets through."""
        ovs = self.rig.ovs or self.ovs
        host = ovs.hosts().get(device)
        container = self.rig.containers().get(host or "")
        if host and container and container.pid:
            faults = read_faults(self.rig.folders.faults).get(host, {})
            self.rig.shape(container, link_mbits(faults))

    def _database(self, bridge: str) -> Any:
        """Another one each time that the switch's container starts."""
        return self.ovs.bridges[bridge].database.select("Bridge", "_uuid")

    def look_again(self) -> None:
        """Set switches that have started anew to what their command lines say."""
        for bridge, device in self.devices.items():
            with suppress(StandinError):
                found = self._database(bridge)
                if found and found != self._databases[bridge]:
                    self._server.on(device, _set_anew)
                    self._databases[bridge] = found

    async def order(self, arguments: Mapping[str, Any]) -> Document:
        """How switches are; `set` turns knobs of those of `names` (all where none is named),
        `usual` first turns all of them back."""
        texts, usual = arguments.get("set", ()), bool(arguments.get("usual"))
        names = arguments.get("names") or list(self.clocks)
        for name in names:
            if name not in self.clocks:
                raise InputError(
                    f"no switch {name} with a command line; {did_you_mean(name, self.clocks)}"
                )
        if texts or usual:
            for name in names:
                await asyncio.to_thread(self._turn, name, texts, usual)
        return {
            "switches": [
                {
                    "name": name,
                    "hostname": device.running.hostname,
                    "down": device.down,
                    "frozen": device.frozen,
                    "knobs": list(written(device.knobs)),
                    "saved": device.saved,
                    "log": device.log,
                }
                for name in self.clocks
                for device in (self.devices[interface_name(name)],)
            ]
        }

    def _turn(self, name: str, texts: Sequence[str], usual: bool) -> None:
        device = self.devices[interface_name(name)]
        knobs = turned(device.knobs, texts, usual)
        self.clocks[name].set_speed(knobs.timer_speed)
        device.loads = dict.fromkeys(self._fed(name), ADAPTER_WATTS) if knobs.poe_watts else {}
        self._server.turn(device, knobs)

    def _fed(self, name: str) -> list[str]:
        """Ports of a switch whose phones live on its power, if it gives any."""
        names = interfaces(self.rig.rack.switches[name])
        phones = self.rig.rack.phones.values()
        return [names[phone.port - 1] for phone in phones if phone.switch == name and phone.port]

    def stop(self) -> None:
        self._server.stop()


def _set_anew(device: Device) -> None:
    if isinstance(device.plane, OvsPlane):
        device.plane.forget()
    device.changed()


def rate_bits(rate: str | None) -> int:
    """Of a rate in tc's words."""
    units = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
    if rate is None:
        return 10**9
    return round(float(rate[:-4]) * units[rate[-4:]])


def read_settings(path: Path) -> Settings | None:
    """The startup configuration of a switch that was saved once."""
    try:
        return TypeAdapter(Settings).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        raise StandinError(f"{path} is no startup configuration: remove it, and start") from None


def write_settings(path: Path, settings: Settings) -> None:
    write_atomic(path, TypeAdapter(Settings).dump_json(settings).decode() + "\n", mode=0o600)


def bound(space: str, kind: socket.SocketKind, port: int) -> socket.socket:
    """A socket for what comes to a port in a network namespace. Raises StandinError."""
    found: list[socket.socket] = []
    problems: list[OSError] = []

    def enter() -> None:
        # It is the thread that enters, and it ends here.
        listener = None
        try:
            with (Path("/run/netns") / space).open() as namespace:
                os.setns(namespace.fileno(), os.CLONE_NEWNET)
            listener = socket.socket(socket.AF_INET, kind)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("0.0.0.0", port))  # noqa: S104  all that there is is the switch
            found.append(listener)
        except OSError as problem:
            if listener:
                listener.close()
            problems.append(problem)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if problems:
        raise StandinError(f"port {port} in {space}: {problems[0]}")
    return found[0]
