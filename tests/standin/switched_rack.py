"""A small stand-in rack on Open vSwitch: an IOS and an EOS switch, two cables between them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netmiko import BaseConnection, ConnectHandler
from small_rack import SmallRack, output

from standin.daemon.control import ask
from standin.openvswitch.enrolment import PASSWORD

PLATFORMS = {"sw1": "cisco_ios", "sw2": "arista_eos"}
SPEED = 60
"""Timers of the switches run so many times as fast: a minute is a second."""

COMMUNITY = "Readers0nly"
MTU = 2000
"""More than a new IOS switch lets through."""

HEAR = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
    listener.bind(("", 9999))
    listener.settimeout(3)
    print("ready", flush=True)
    print(len(listener.recv(10_000)))
"""
SAY = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as speaker:
    speaker.sendto(bytes(int(sys.argv[2])), (sys.argv[1], 9999))
"""
ASK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 8022), timeout=3).close()
except ConnectionRefusedError:
    pass
except OSError:
    sys.exit(1)
"""


@dataclass(frozen=True)
class SwitchedRack(SmallRack):
    """phone001 and phone002 on sw1 (IOS), phone003 on sw2 (EOS), all in VLAN 10."""

    def write(self) -> None:
        from standin.record import native_target

        network, target = f"10.{self.subnet}.0", native_target()
        self.file.write_text(
            f"""
rack: {self.name}
network:
  {{cidr: {network}.0/24, medium: ethernet, dhcp: ours, controller: {network}.1,
   services: {network}.2, vlan: 10, mtu: {MTU}}}
switches:
  sw1: {{platform: cisco_ios, address: {network}.3, ports: 12, uplinks: {{sw2: 9-10}},
        reserved: 11-12}}
  sw2: {{platform: arista_eos, address: {network}.4, ports: 12, uplinks: {{sw1: 9-10}}}}
phones:
  - {{target: {target}, switch: sw1, ports: 1-2, addresses: {network}.11-12}}
  - {{target: {target}, switch: sw2, ports: 1, addresses: {network}.13}}
"""
        )

    def hasten(self, speed: float = SPEED) -> None:
        ask(self.folder / "standin", "switches", set=[f"clock={speed:g}"])

    def played(self, switch: str) -> dict[str, Any]:
        """How a switch is, past its command line."""
        found = ask(self.folder / "standin", "switches")["switches"]
        return next(item for item in found if item["name"] == switch)

    def has_logged(self, switch: str, line: str) -> bool:
        """Whether a switch did this by itself, and is up."""
        state = self.played(switch)
        return line in state["log"] and not state["down"]

    # --- who reaches whom -----------------------------------------------------------------------

    def enter(self, phone: str) -> list[str]:
        pid = output("podman", "inspect", "-f", "{{.State.Pid}}", f"{self.namespace}-{phone}")
        return ["nsenter", "-t", pid.strip(), "-n"]

    def address(self, phone: str) -> None:
        """Give a phone its address, as DHCP does once somebody serves it."""
        address = f"10.{self.subnet}.0.1{int(phone[-1])}/24"
        output(*self.enter(phone), "ip", "address", "replace", address, "dev", "eth0")

    def reaches(self, phone: str, other: str) -> bool:
        address = f"10.{self.subnet}.0.1{int(other[-1])}"
        # Whom it knows it need not ask for, which takes a broadcast.
        output(*self.enter(phone), "ip", "neighbour", "flush", "dev", "eth0")
        command = [*self.enter(phone), sys.executable, "-c", ASK, address]
        return subprocess.run(command, check=False).returncode == 0

    def hears(self, phone: str, other: str, size_bytes: int) -> bool:
        """Whether one datagram of this size comes from `other` to `phone`."""
        address = f"10.{self.subnet}.0.1{int(phone[-1])}"
        listen = [*self.enter(phone), sys.executable, "-c", HEAR]
        with subprocess.Popen(
            listen, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as listening:
            assert listening.stdout
            assert listening.stdout.readline() == "ready\n"
            output(*self.enter(other), sys.executable, "-c", SAY, address, str(size_bytes))
            return listening.stdout.read().strip() == str(size_bytes)

    def has_carrier(self, phone: str) -> bool:
        link = output(*self.enter(phone), "ip", "-brief", "link", "show", "eth0")
        return "LOWER_UP" in link

    # --- the command lines ----------------------------------------------------------------------

    @contextmanager
    def login(self, switch: str) -> Iterator[BaseConnection]:
        connection = ConnectHandler(
            device_type=PLATFORMS[switch],
            host=f"10.{self.subnet}.0.{2 + int(switch[-1])}",
            username="admin",
            password=PASSWORD,
            ssh_strict=True,
            alt_host_keys=True,
            alt_key_file=str(self.folder / "ssh/known_switches"),
            conn_timeout=30,
            banner_timeout=30,
            auth_timeout=30,
        )
        try:
            yield connection
        finally:
            # Its own way to leave would ask a switch that may be cut off.
            connection.remote_conn.close()

    def type(self, switch: str, *lines: str) -> None:
        """In configuration mode."""
        with self.login(switch) as connection:
            connection.send_config_set(list(lines))

    def show(self, switch: str, command: str) -> str:
        with self.login(switch) as connection:
            return str(connection.send_command(command))

    def fleetctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).with_name("fleetctl"), *arguments],
            env={**self.environment, "SWITCH_PASSWORD": PASSWORD, "SNMP_COMMUNITY": COMMUNITY},
            text=True,
            capture_output=True,
            timeout=300,
        )

    def provision(self) -> list[str]:
        """What `site.yml -t switches` does, without Ansible; the result of each switch."""
        from fleetctl.rack import RackPaths, load_rack
        from fleetctl.switches.fleet import Switches
        from fleetctl.switches.session import Patience

        os.environ["SWITCH_PASSWORD"] = PASSWORD
        rack, paths = load_rack(self.file), RackPaths(self.name, self.home)
        patience = Patience(line_seconds=60, connect_seconds=60)
        os.environ["SNMP_COMMUNITY"] = COMMUNITY
        answers = Switches(rack, paths, patience=patience).provision()
        return [getattr(answer, "result", str(answer)) for answer in answers.values()]


def awaited[Seen](look: Callable[[], Seen], seconds: float = 120) -> Seen:
    """The first thing seen that is not nothing, while a busy machine gets round to it; else the
    last.

    Whatever is to be said of it must be said of this sight: the next may differ, since spanning
    trees go on changing, and make switches forget, for a while.
    """
    deadline = time.monotonic() + seconds
    while not (seen := look()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return seen
