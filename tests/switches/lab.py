"""Stand-in switches on loopback addresses, phones in their ports, and jobs for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import asyncssh
from conftest import KINDS, small_rack

from fleetctl.rack import Rack, RackPaths
from fleetctl.switches.errors import SwitchError
from fleetctl.switches.fleet import Switches
from fleetctl.switches.intent import intend
from fleetctl.switches.job import Job, Report
from fleetctl.switches.plan import plan_change
from fleetctl.switches.platforms import platform
from fleetctl.switches.rollout import roll_out
from fleetctl.switches.secrets import Secrets
from fleetctl.switches.session import Patience, Target
from standin.switches.device import Device, Knobs, RunningClock
from standin.switches.plane import End, MemoryNetwork
from standin.switches.printed import configuration
from standin.switches.server import SwitchServer
from standin.switches.state import Settings

SPEED = 120.0
"""Timers of the switches run so much faster: a minute is half a second."""

PATIENCE = Patience(
    connect_seconds=5.0,
    line_seconds=1.5,
    show_seconds=5.0,
    save_seconds=5.0,
    settle_seconds=2.0,
    boot_seconds=900.0,
    timer_speed=SPEED,
)
HOST_KEY = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
PASSWORD, COMMUNITY = "Login-Pa55word", "Readers0nly"
SECRETS = {"switch_password": PASSWORD, "snmp_community": COMMUNITY}


@dataclass
class Lab:
    """Switches of a rack behind real ssh, in a network of plain values."""

    rack: Rack
    folder: Path
    server: SwitchServer = field(default_factory=lambda: SwitchServer(HOST_KEY))
    network: MemoryNetwork = field(default_factory=MemoryNetwork)
    devices: dict[str, Device] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    backups: list[tuple[str, str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    vantage: str = "phone001"
    """From here phones are knocked at."""

    secrets: dict[str, str] = field(default_factory=lambda: dict(SECRETS))

    def add(self, name: str, **knobs: Any) -> Device:
        """Plug a factory-new switch in, with the phones that the rack file has there."""
        switch = self.rack.switches[name]
        interfaces = platform(switch.platform).interfaces(switch.ports)
        clock = RunningClock()
        clock.set_speed(SPEED)
        device = Device(
            *(KINDS[switch.platform], interfaces, self.network.plane(name)),
            {"admin": PASSWORD},
            clock.now,
            Knobs(timer_speed=SPEED, **knobs),
        )
        port = self.server.serve(device, "127.0.0.1")
        known = self.folder / "known_switches"
        key = self.server.host_key.export_public_key("openssh").decode().strip()
        with known.open("a") as file:
            file.write(f"[127.0.0.1]:{port} {key}\n")
        self.targets[name] = Target(
            name, "127.0.0.1", "admin", "switch_password", None, known, port
        )
        for phone in self.rack.phones.values():
            if phone.switch == name and phone.port:
                self.network.hosts[phone.name] = End(name, interfaces[phone.port - 1])
        self.devices[name] = device
        return device

    def make_home(self, folder: Path) -> Path:
        """What $PHONERACK_HOME names, with the switches' host keys for a rack called lab."""
        home = folder / "home"
        known = home / "lab/ssh/known_switches"
        known.parent.mkdir(parents=True, mode=0o700)
        known.write_text((self.folder / "known_switches").read_text())
        return home

    def job(self, name: str, **changes: Any) -> Job:
        switch = self.rack.switches[name]
        found = platform(switch.platform)
        intent = intend(self.rack, switch, found.interfaces(switch.ports))
        job = Job(
            target=self.targets[name],
            platform=found,
            intent=intent,
            secrets=Secrets(self.secrets),
            reachable=self.reachable,
            backup=lambda text: self.backups.append((name, text)),
            patience=PATIENCE,
            say=self.said.append,
        )
        return replace(job, **changes)

    def reachable(self) -> set[str]:
        """Phones of the rack that can be reached from where `vantage` is plugged in."""
        return {phone for phone in self.rack.phones if self.network.reaches(self.vantage, phone)}

    def run(self, *names: str, dry: bool = False, **changes: Any) -> list[Report | SwitchError]:
        jobs = [self.job(name, **changes) for name in names or self.devices]
        neighbours = {
            name: [bundle.to for bundle in switch.bundles]
            for name, switch in self.rack.switches.items()
        }
        return roll_out(jobs, neighbours, dry)

    def settings(self, name: str = "sw1") -> Settings:
        return self.look(lambda device: device.running.copy(), name)

    def startup(self, name: str = "sw1") -> Settings:
        return self.look(lambda device: device.startup.copy(), name)

    def look[Seen](self, act: Callable[[Device], Seen], name: str = "sw1") -> Seen:
        seen: Seen = self.server.on(self.devices[name], act)
        return seen

    def type(self, text: str, name: str = "sw1") -> None:
        """What a person types in configuration mode, and saves."""
        from standin.switches.session import Session

        def act(device: Device) -> None:
            session = Session(device, "admin")
            session.take("configure terminal")
            for line in text.strip().splitlines():
                session.take(line.strip())
            session.take("end")
            session.take("write memory")

        self.look(act, name)

    def settle(self, name: str = "sw1") -> None:
        """Make the switch what the rack file wants, without a session: it was provisioned once."""
        job = self.job(name)
        secrets = job.secrets

        def running(device: Device) -> str:
            return "\n".join(configuration(device, device.running, "running"))

        for _ in range(2):
            found = job.platform.read(secrets.conceal(self.look(running, name)), job.intent)
            lines = found.lacking or plan_change(job.platform, job.intent, found).commands
            self.type("\n".join(secrets.reveal(line) for line in lines), name)

    def close(self) -> None:
        self.server.stop()


def one_switch(folder: Path, name: str, **knobs: Any) -> Lab:
    lab = Lab(small_rack(name, snmp="snmp_community"), folder)
    lab.add("sw1", **knobs)
    return lab


def fleet(rig: Any, folder: Path, **changes: Any) -> Switches:
    """The switches of a lab, as a rack on loopback would have them."""
    target = rig.targets["sw1"]
    switch = replace(rig.rack.switches["sw1"], address=target.address)
    rack = replace(rig.rack, switches={"sw1": switch}, phones={})
    paths = RackPaths("lab", folder / "home")
    paths.ensure()
    found = Switches(rack, paths, (SECRETS.get,), patience=PATIENCE, port=target.port)
    found.known_hosts.write_text(target.known_hosts.read_text())
    return replace(found, **changes)
