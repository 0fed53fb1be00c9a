"""A small stand-in rack of a test's own, with a DHCP server, apart from the suite's shared one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhcp_server import dhcp_server

PROJECT = Path(__file__).resolve().parents[2]
FLEETCTL = Path(sys.executable).with_name("fleetctl")
PHONES = ("phone001", "phone002", "phone003", "phone004")


@dataclass(frozen=True)
class SmallRack:
    """Four phones on two switches: the network is 10.`subnet`.0.0/24."""

    name: str
    subnet: int
    home: Path

    @property
    def file(self) -> Path:
        return self.home / "rack-file.yml"

    @property
    def folder(self) -> Path:
        return self.home / self.name

    @property
    def namespace(self) -> str:
        return f"pr-{self.name}"

    def write(self) -> None:
        from standin.record import native_target

        network = f"10.{self.subnet}.0"
        self.file.write_text(
            f"""
rack: {self.name}
network:
  {{cidr: {network}.0/24, medium: ethernet, dhcp: ours, controller: {network}.1,
   services: {network}.2}}
switches:
  sw1: {{ports: 52, uplinks: 49}}
  sw2: {{ports: 52, uplinks: 49}}
phones:
  - {{target: {native_target()}, switch: sw1, ports: 1-2, addresses: {network}.11-12}}
  - {{target: {native_target()}, switch: sw2, ports: 1-2, addresses: {network}.13-14}}
"""
        )

    @property
    def environment(self) -> dict[str, str]:
        kept = {"PHONERACK_HOME": str(self.home), "PHONERACK_RACK": str(self.file)}
        return {**os.environ, **kept, "COLUMNS": "200"}

    def try_standin(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [FLEETCTL, "standin", *arguments],
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=900,
        )

    def standin(self, *arguments: str) -> str:
        done = self.try_standin(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def seen(self) -> dict[str, tuple[str, list[str] | None]]:
        """State and faults of each phone."""
        phones = json.loads(self.standin("list", "-o", "json"))["phones"]
        return {phone["name"]: (phone["state"], phone["faults"]) for phone in phones}

    def ssh(self, phone: str, *command: str) -> subprocess.CompletedProcess[str]:
        place = PHONES.index(phone) + 1
        options = {
            "UserKnownHostsFile": self.folder / "ssh/known_hosts",
            "HostKeyAlias": phone,
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": "2",
        }
        return subprocess.run(
            [
                *("ssh", "-p", "8022", "-l", "phone", "-i", self.folder / "ssh/operator"),
                *(f"-o{name}={value}" for name, value in options.items()),
                f"10.{self.subnet}.0.1{place}",
                *command,
            ],
            text=True,
            capture_output=True,
        )

    def container(self, phone: str, *command: str) -> str:
        """What a command says inside a phone's container, past ssh, as Android's root."""
        return output("podman", "exec", f"{self.namespace}-{phone}", *command)

    def hardware(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """`standin hardware` with these arguments: what it says of each phone."""
        phones = json.loads(self.standin("hardware", *arguments, "-o", "json"))["phones"]
        return {phone["name"]: phone for phone in phones}

    def answers(self, phone: str, seconds: float = 120) -> bool:
        """Whether ssh gets through to the phone while a busy machine gets round to it."""
        deadline = time.monotonic() + seconds
        while self.ssh(phone, "true").returncode != 0:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)  # a phone whose sshd is not up yet refuses at once
        return True

    def is_silent(self, phone: str, seconds: float = 0) -> bool:
        """Whether ssh does not get through to it, once or for so long."""
        return not self.answers(phone, seconds)

    @contextmanager
    def dhcp(self) -> Iterator[None]:
        """A DHCP server on the services host, before the role that will bring the rack's own."""
        phones = json.loads(self.standin("up", "-o", "json"))["phones"]
        leases = {phone["mac"]: phone["address"] for phone in phones}
        with dhcp_server(self.namespace, leases, self.home):
            yield


def output(*command: str) -> str:
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout
