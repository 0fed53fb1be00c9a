"""All Open vSwitches of one stand-in rack: started, wired, and phones plugged into them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fleetctl.rack import Rack
from standin import engine
from standin.commands import Command, CommandError, run
from standin.engine import Spec
from standin.errors import StandinError
from standin.fabric import FabricPlan, Found, derived_mac, interface_name
from standin.openvswitch.bridge import LOOSE, SPEED, Bridge
from standin.openvswitch.ports import Wire, plain_rows, rows
from standin.openvswitch.wires import SPEECH, build_commands, made, wires
from standin.switches.state import PortEffect

START_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.05
TUN = Path("/dev/net/tun")


@dataclass(frozen=True)
class OvsFabric:
    """The switches of `rack`, kept in `root`; `folder` is the rack's own."""

    rack: Rack
    plan: FabricPlan
    folder: Path
    root: Path

    @cached_property
    def bridges(self) -> dict[str, Bridge]:
        return {
            name: Bridge(name, self.plan.space(name), self.root / name / "run")
            for name in self.plan.bridges
        }

    @cached_property
    def managed(self) -> frozenset[str]:
        """Bridges that have a command line."""
        return frozenset(
            interface_name(name)
            for name, switch in self.rack.switches.items()
            if switch.platform in SPEECH
        )

    def wires(self, bridge: str) -> list[Wire]:
        return wires(self.plan, self.rack, bridge)

    def _at(self, host: str) -> tuple[Bridge, str]:
        port = self.plan.ports[host]
        return self.bridges[port.bridge], port.name

    # --- the whole ------------------------------------------------------------------------------

    def wire(self, found: Found, unplugged: Collection[str], image: str) -> None:
        """Make what is missing of namespaces, cables and switches."""
        for command in build_commands(self.plan, self.rack, found):
            run(command)
        with ThreadPoolExecutor(max_workers=len(self.bridges)) as pool:
            list(pool.map(lambda bridge: self._start(bridge, image), self.bridges.values()))
        for device, name in made(self.plan, found):
            database = self.bridges[name].database
            if database.take_out(device):
                database.put_in(device)
            self.bridges[name].note({device: {}})
        for name, bridge in self.bridges.items():
            bridge.note(
                {
                    port.name: {LOOSE: "yes" if host in unplugged else None}
                    for host, port in self.plan.ports.items()
                    if port.bridge == name
                }
            )

    def _start(self, bridge: Bridge, image: str) -> None:
        """Start a switch that does not run, and give it the ports that it has."""
        if not TUN.exists():
            raise StandinError(
                f"there is no {TUN}, which Open vSwitch needs: load the module tun, "
                "or take the plain bridges (`standin up --fabric bridge`)"
            )
        bridge.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        present = {item.name: item for item in engine.containers(self.rack.name)}
        container = present.get(bridge.space)
        if container is None:
            engine.start_new(self._spec(bridge, image))
        elif container.state == "dead":
            engine.start(container.name)
        if not self._await(bridge):
            mac = derived_mac(self.rack.name, bridge.name)
            bridge.database.make_bridge(bridge.name, mac)
            mine = self.wires(bridge.name)
            if bridge.name in self.managed:
                flat = PortEffect(True, self.rack.network.vlan, frozenset())
                found = rows(mine, {wire.port: flat for wire in mine})
            else:
                found = plain_rows(mine)
            bridge.database.set_ports(found, bridge.name)

    def _await(self, bridge: Bridge) -> bool:
        """Wait until the database answers; whether it has its bridge."""
        deadline = time.monotonic() + START_WAIT_SECONDS
        while True:
            try:
                return bridge.database.has_bridge()
            except StandinError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)

    def _spec(self, bridge: Bridge, image: str) -> Spec:
        return Spec(
            name=bridge.space,
            image=image,
            rack=self.rack.name,
            host=bridge.name,
            folder=str(self.folder),
            hostname=bridge.name.replace("_", "-").replace("~", "-"),
            options=(
                *("--cap-add=NET_ADMIN", "--cap-add=NET_RAW", f"--device={TUN}"),
                f"--network=ns:/run/netns/{bridge.space}",
                f"--volume={bridge.folder}:/run/openvswitch",
            ),
        )

    # --- one cable ------------------------------------------------------------------------------

    def plug(self, host: str, commands: Iterable[Command], loose: bool) -> None:
        """Put a new cable into the place of the one that a host had, by `commands`."""
        bridge, device = self._at(host)
        was_in = bridge.database.take_out(device)
        with suppress(CommandError):
            run(("ip", "-n", bridge.space, "link", "delete", device))
        for command in commands:
            run(command)
        if was_in:
            bridge.database.put_in(device)
        self.set_cable(host, plugged=not loose)

    def set_cable(self, host: str, plugged: bool) -> None:
        bridge, device = self._at(host)
        bridge.note({device: {LOOSE: None if plugged else "yes"}})

    def loose(self) -> set[str]:
        """Devices whose cable is pulled."""
        return {device for bridge in self.bridges.values() for device in bridge.noted(LOOSE)}

    def held_mbits(self, host: str) -> int | None:
        """To what speed the port of a host is held."""
        bridge, device = self._at(host)
        held = bridge.database.noted(device).get(SPEED)
        return int(held) if held else None

    def hosts(self) -> Mapping[str, str]:
        """The host behind each device."""
        return {port.name: host for host, port in self.plan.ports.items()}
