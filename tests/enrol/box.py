"""A box of stand-in phones that nobody has enrolled, and what a person does with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from which_rack import SUBNET

from standin.android.state import AndroidState, read_state
from standin.enrolment import API_LEVEL
from standin.record import native_target

BIN = Path(sys.executable).parent
FLEETCTL = BIN / "fleetctl"
PROJECT = Path(__file__).resolve().parents[2]


@dataclass
class Box:
    """A rack of boxed phones in a /28; `place` tells the boxes of one run of the tests apart.

    `said` keeps what commands have answered, by a name for each.
    """

    home: Path
    place: int
    said: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)

    @property
    def network(self) -> str:
        first, second, third = SUBNET.split(".")
        return f"{first}.{second}.{int(third) + self.place}"

    @property
    def name(self) -> str:
        return f"enrol-{self.network.replace('.', '-')}"

    def write(
        self,
        phones: int,
        medium: str,
        dhcp: str,
        more: str = "",
        *,
        time: str = "theirs",
        levels: Mapping[str, int] | None = None,
    ) -> None:
        """The rack file; `levels`: API levels of the phones that have another than most."""
        groups = "".join(
            f"- {{names: phone{number:03}, target: {native_target()}, "
            f"addresses: {self.network}.{2 + number}, "
            f"api_level: {(levels or {}).get(f'phone{number:03}', API_LEVEL)}}}\n"
            for number in range(1, phones + 1)
        )
        (self.home / "rack.yml").write_text(
            f"""
rack: {self.name}
network:
  cidr: {self.network}.0/28
  medium: {medium}
  dhcp: {dhcp}
  time: {time}
  controller: {self.network}.1
  services: {self.network}.2
phones:
{groups}{more}
"""
        )

    @property
    def folder(self) -> Path:
        return self.home / self.name

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run(FLEETCTL, *arguments)

    def _run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=PROJECT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=900,
        )

    @property
    def environment(self) -> dict[str, str]:
        file = self.home / "rack.yml"
        kept = {"PHONERACK_HOME": str(self.home), "PHONERACK_RACK": str(file), "COLUMNS": "200"}
        path = f"{BIN}:{os.environ['PATH']}"
        return {**os.environ, **kept, "PATH": path, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")}

    def must(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def site(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run site.yml."""
        return self._run(
            BIN / "ansible-playbook", "-i", self.home / "rack.yml", "site.yml", *arguments
        )

    def apks(self, *options: str) -> None:
        self.must("standin", "apks", str(self.folder / "apks"), *options)

    def enroll_accepting(self, phones: str, *options: str) -> subprocess.CompletedProcess[str]:
        """`fleetctl enroll`, while somebody unlocks the phones and accepts their dialogs."""
        with subprocess.Popen(
            [FLEETCTL, "enroll", *options],
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as asking:
            self.must("standin", "unlock", phones)
            # A dialog is there only as long as somebody asks.
            while self.run("standin", "authorize", phones).returncode:
                assert asking.poll() is None, asking.communicate()
                time.sleep(0.5)
            out, err = asking.communicate(timeout=600)
        return subprocess.CompletedProcess([], asking.returncode, out, err)

    def reports(self, step: str) -> dict[str, dict[str, Any]]:
        """Reports of an enrolment, by place in the rack or by link."""
        phones = json.loads(self.said[step].stdout)["phones"]
        return {phone["name"] or phone["link"]: phone for phone in phones}

    def ends(self, step: str) -> dict[str, str]:
        return {name: phone["end"] for name, phone in self.reports(step).items()}

    def android(self, phone: str) -> AndroidState:
        return read_state(self.folder / "standin/hw" / phone)

    @property
    def lock(self) -> dict[str, dict[str, Any]]:
        phones: dict[str, dict[str, Any]] = yaml.safe_load(
            (self.folder / "rack.lock.yml").read_text()
        )["phones"]
        return phones

    def ssh(self, name: str, command: str, wait_seconds: float = 90) -> str:
        """What a command says on the phone in a place, known by its key, once it answers."""
        options = {
            "UserKnownHostsFile": self.folder / "ssh/known_hosts",
            "HostKeyAlias": name,
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": "2",
        }
        words = ["ssh", "-p", "8022", "-i", str(self.folder / "ssh/operator")]
        words += [f"-o{key}={value}" for key, value in options.items()]
        words += [f"phone@{self.lock[name]['address']}", command]
        deadline = time.monotonic() + wait_seconds
        while True:
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode == 0:
                return done.stdout
            assert time.monotonic() < deadline, done.stderr
            time.sleep(0.5)

    @contextmanager
    def dhcp(self) -> Iterator[None]:
        """Somebody else's DHCP server: it knows no phone."""
        server, leases = f"pr-{self.name}-their-dhcp", self.home / "udhcpd.conf"
        leases.write_text(
            f"start {self.network}.7\nend {self.network}.14\ninterface rack0\nlease_file /leases\n"
            "option subnet 255.255.255.240\n"
        )
        image = subprocess.run(
            ["podman", "inspect", "-f", "{{.ImageName}}", f"pr-{self.name}-phone001"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        words = ["podman", "run", "--detach", "--rm", f"--name={server}", "--user=0"]
        words += ["--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"]
        words += ["--cap-add=NET_RAW", "--cap-add=NET_ADMIN"]
        words += [
            f"--network=container:pr-{self.name}-services",
            f"--volume={leases}:/udhcpd.conf:ro",
        ]
        serve = "touch /leases && exec /system/bin/busybox udhcpd -f /udhcpd.conf"
        words += [image, "/system/bin/sh", "-c", serve]
        subprocess.run(words, check=True, capture_output=True)
        try:
            yield
        finally:
            subprocess.run(["podman", "rm", "--force", "--time=0", server], capture_output=True)
