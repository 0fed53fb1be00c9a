"""One stand-in rack on this machine: its containers, their wires, and what is found of both."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network
from os import cpu_count
from pathlib import Path

from fleetctl.rack import Rack, RackError, RackPaths
from standin import engine, storage
from standin.android.state import has_state, read_state
from standin.commands import CommandError, run
from standin.engine import Container, CpuLimit, Spec
from standin.enrolment import Folders
from standin.errors import StandinError
from standin.fabric import (
    SERVICES,
    FabricPlan,
    Found,
    Link,
    build_commands,
    carrier_command,
    degraded_rate,
    exchanged,
    interface_name,
    namespace_name,
    plug_commands,
    shape_commands,
)
from standin.faults import exchanges, read_faults
from standin.openvswitch.fabric import OvsFabric
from standin.share import cpu_limit

LOCK_WAIT_SECONDS = 60

# What DHCP needs on either side. On a phone only Android has it, never the app user.
_DHCP_OPTIONS = ("--cap-add=NET_ADMIN", "--cap-add=NET_RAW")

# An 8 GB phone leaves about half of its memory to an app.
_PHONE_OPTIONS = (
    *_DHCP_OPTIONS,
    "--init",
    "--network=none",
    "--ipc=none",
    "--memory=4g",
    "--pids-limit=1024",
    # Android's init lets every app ping.
    "--sysctl=net.ipv4.ping_group_range=0 2147483647",
)


@dataclass(frozen=True)
class Rig:
    """The containers and wires of `rack`. Nothing is kept here: every look is a new one."""

    rack: Rack
    paths: RackPaths
    plan: FabricPlan

    @cached_property
    def folders(self) -> Folders:
        return Folders(self.paths.standin)

    @property
    def hosts(self) -> list[str]:
        return [SERVICES, *self.rack.phones]

    def container_name(self, host: str) -> str:
        return container_name(self.rack.name, host)

    @property
    def wired(self) -> FabricPlan:
        """The plan as hands have left it: some phones are in each other's port."""
        return exchanged(self.plan, exchanges(read_faults(self.folders.faults)))

    @property
    def ovs(self) -> OvsFabric | None:
        """The switches, where they are Open vSwitches."""
        if self.plan.kind != "ovs":
            return None
        return OvsFabric(self.rack, self.wired, self.paths.dir, self.folders.switches)

    def containers(self) -> dict[str, Container]:
        """Those of the hosts; switches that are containers are not among them."""
        present = engine.containers(self.rack.name)
        return {found.host: found for found in present if found.host in self.plan.ports}

    def cpu(self, host: str, speed: float | None = None) -> CpuLimit | None:
        """The processor limit of a phone at `speed` of its share; the services host has none."""
        if host == SERVICES:
            return None
        return cpu_limit(cpu_count() or 1, len(self.rack.phones), speed or 1.0)

    def spec(self, host: str, image: str) -> Spec:
        return self._services_spec(image) if host == SERVICES else self._phone_spec(host, image)

    def _phone_spec(self, name: str, image: str) -> Spec:
        return Spec(
            name=self.container_name(name),
            image=image,
            rack=self.rack.name,
            host=name,
            folder=str(self.paths.dir),
            hostname="localhost",
            options=_PHONE_OPTIONS,
            mounts={
                "/standin/hw": str(self.folders.hardware(name)),
                "/standin/enrol": str(self.folders.enrol(name)),
                "/proc/stat": str(self.folders.denied),
                # Else podman shows the host's.
                "/etc/resolv.conf": str(self.folders.denied),
            },
            volumes={"/data": self.volume(name)} if storage.is_possible() else {},
            cpu=self.cpu(name),
        )

    def volume(self, phone: str) -> str:
        """The name of the volume that is a phone's storage."""
        return f"{self.container_name(phone)}-data"

    def renew_storage(self, phone: str) -> None:
        """Fresh storage for a phone that has no container."""
        if storage.is_possible():
            storage.renew(self.folders.storage, self.rack.name, phone, self.volume(phone))

    def _services_spec(self, image: str) -> Spec:
        return Spec(
            name=self.container_name(SERVICES),
            image=image,
            rack=self.rack.name,
            host=SERVICES,
            folder=str(self.paths.dir),
            hostname=SERVICES,
            options=(*_DHCP_OPTIONS, "--systemd=always", f"--network={self.plan.namespace}"),
            mounts={"/standin/enrol": str(self.folders.enrol(SERVICES))},
        )

    def wire(self, unplugged: Collection[str] = (), switch_image: str = "") -> None:
        """Make what is missing of the fabric without the containers' ports; harms nothing there.

        Open vSwitches are started from `switch_image`.
        """
        found = find_fabric(self.plan)
        loose = {*unplugged, *(host for host in self.hosts if not self.on_hub(host))}
        if self.ovs:
            self.ovs.wire(found, loose, switch_image)
        else:
            for command in build_commands(self.wired, found, loose):
                run(command)
        keep_from_forwarding(self.plan.host_link)

    def ports(self) -> Mapping[str, Link]:
        """The interfaces found in the rack's namespaces, by name; one whose cable is pulled is
        down, one that its switch has shut is not."""
        links = find_fabric(self.plan).links or {}
        if self.ovs:
            loose = self.ovs.loose()
            return {name: Link(None, name not in loose) for name in links}
        return links

    def plug(self, container: Container, unplugged: bool = False) -> None:
        """Give a container that has just started its cable; an old one may still be going away."""
        plan, ovs = self.wired, self.ovs
        port = plan.ports[container.host]
        loose = unplugged or not self.on_hub(container.host)
        commands = plug_commands(plan, container.host, container.pid, loose)
        if ovs:
            with suppress(CommandError):
                # Its other end may be in a namespace that has lost its name.
                enter = ("nsenter", "-t", str(container.pid), "-n")
                run((*enter, "ip", "link", "delete", port.inside))
            ovs.plug(container.host, commands, loose)
            if port.shaped and ovs.held_mbits(container.host):
                self.shape(container)
            return
        with suppress(CommandError):
            run(("ip", "-n", self.plan.namespace, "link", "delete", port.name))
        for command in commands:
            run(command)

    def shape(self, container: Container, mbits: int = 1000) -> None:
        """Have a phone's cable carry what one of `mbits` does, or less where its port is held."""
        held = self.ovs.held_mbits(container.host) if self.ovs else None
        mbits = min(mbits, held or mbits)
        rate = self.plan.rate if mbits >= 1000 else degraded_rate(self.plan.rate, mbits)
        for command in shape_commands(self.wired, container.host, container.pid, rate):
            run(command)

    def on_hub(self, host: str) -> bool:
        """Whether a host has the rack's network: a wired phone has one port for it or adb."""
        if host == SERVICES or self.rack.network.medium == "wifi":
            return True
        folder = self.folders.hardware(host)
        return not has_state(folder) or read_state(folder).usb == "hub"

    def pull(self, host: str) -> None:
        self._set_cable(host, plugged=False)

    def replug(self, host: str) -> None:
        self._set_cable(host, plugged=self.on_hub(host))

    def set_carrier(self, host: str) -> None:
        """Have the cable follow where the phone's port leads, unless a fault has pulled it."""
        pulled = "unplug" in read_faults(self.folders.faults).get(host, {})
        self._set_cable(host, plugged=self.on_hub(host) and not pulled)

    def _set_cable(self, host: str, plugged: bool) -> None:
        if self.ovs:
            self.ovs.set_cable(host, plugged)
        else:
            run(carrier_command(self.wired, host, plugged))


def container_name(rack: str, host: str) -> str:
    return f"{namespace_name(rack)}-{host}"


def host_link_name(rack: str) -> str:
    return interface_name(namespace_name(rack))


def find_fabric(plan: FabricPlan) -> Found:
    """What there is of a rack's wires. A namespace that cannot be entered counts as none."""
    links: dict[str, Link] = {}
    missing = set()
    for space in plan.spaces:
        if not (Path("/run/netns") / space).exists():
            missing.add(space)
            continue
        try:
            listing = json.loads(run(("ip", "-n", space, "-json", "link", "show")))
        except CommandError:
            # Left by a crash: the name is there, the namespace behind it is not.
            run(("ip", "netns", "delete", space))
            missing.add(space)
            continue
        links |= {
            item["ifname"]: Link(item.get("master"), "UP" in item["flags"]) for item in listing
        }
    has_host_link = (Path("/sys/class/net") / plan.host_link).exists()
    return Found(None if missing == {*plan.spaces} else links, has_host_link, frozenset(missing))


def refuse_overlap(plan: FabricPlan) -> None:
    """Raises RackError when this machine reaches part of the network by another interface."""
    for route in json.loads(run(("ip", "-json", "-4", "route", "show"))):
        if route["dst"] == "default" or route.get("dev") == plan.host_link:
            continue
        if IPv4Network(route["dst"]).overlaps(plan.cidr):
            raise RackError(
                f"the rack's network {plan.cidr} overlaps {route['dst']} on {route['dev']} of this "
                "machine: give the rack file another `cidr`, or take that rack down"
            )


def keep_from_forwarding(interface: str) -> None:
    """Podman lets the host forward; nothing that comes from the rack shall go further."""
    (Path("/proc/sys/net/ipv4/conf") / interface / "forwarding").write_text("0\n")


@contextmanager
def exclusive(rack: str) -> Iterator[None]:
    """Hold the rack against other stand-in commands; the kernel lets go when the process ends.

    Raises StandinError after LOCK_WAIT_SECONDS.
    """
    with socket.socket(socket.AF_UNIX) as lock:
        deadline = time.monotonic() + LOCK_WAIT_SECONDS
        while True:
            try:
                # An abstract name: it is this machine's, and leaves no file.
                lock.bind(f"\0phonerack-standin-{rack}")
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise StandinError(
                        f"another `fleetctl standin` works on rack `{rack}`: wait for its end"
                    ) from None
                time.sleep(0.1)
        yield
