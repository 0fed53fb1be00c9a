"""The README's "your first two phones": a Debian machine that is all there is beside two phones on
Wi-Fi. It is controller and services host at once; addresses come from somebody else's router.

The machine is a container of the stand-in rack, so that nothing is installed on this one. Only its
set-up uses this machine's network, since the rack has no way out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from dhcp_server import dhcp_server
from which_rack import SUBNET

pytestmark = [pytest.mark.standin, pytest.mark.soak, pytest.mark.timeout(3600)]

PROJECT = Path(__file__).resolve().parents[2]
FLEETCTL = Path(sys.executable).with_name("fleetctl")
FIRST, SECOND, THIRD = SUBNET.split(".")
NETWORK = f"{FIRST}.{SECOND}.{int(THIRD) + 100}"
NAME = f"wifi-{SECOND}-{int(THIRD) + 100}"
PHONES = {"phone001": f"{NETWORK}.11", "phone002": f"{NETWORK}.12"}
CHECKOUT = "/root/phonerack"
KEPT = "/root/.local/state/phonerack/home"
TERMUX_HOME = "/data/data/com.termux/files/home"

RACK_FILE = f"""\
rack: home
network: {{cidr: {NETWORK}.0/24, medium: wifi, dhcp: theirs, controller: {NETWORK}.2}}
phones:
  - {{target: TARGET, addresses: {NETWORK}.11-12}}
"""
"""As in the README, but for the target: a stand-in phone has this machine's processor."""


@dataclass(frozen=True)
class DebianMachine:
    """The container that plays a person's Debian machine."""

    container: str

    def run(self, command: str, stdin: bytes | None = None, check: bool = True) -> str:
        """A shell command of root's, in the checkout."""
        done = subprocess.run(
            [
                *("podman", "exec", "--interactive", f"--workdir={CHECKOUT}"),
                *("--env=USER=root", "--env=HOME=/root", "--env=COLUMNS=160"),
                f"--env=PATH={CHECKOUT}/.venv/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
                *(self.container, "sh", "-c", command),
            ],
            input=stdin or b"",
            capture_output=True,
        )
        said = done.stdout.decode(errors="replace")
        if check and done.returncode:
            pytest.fail(f"{command}: {done.returncode}\n{said}\n{done.stderr.decode()}")
        return said

    def set_up(self) -> None:
        """`make setup`, in this container's files but with this machine's way to the internet."""
        inspect = ["podman", "inspect", "-f", "{{.State.Pid}}", self.container]
        pid = output(*inspect).strip()
        certificates = Path("/etc/ssl/certs/ca-certificates.crt")
        if certificates.exists():
            self.run(f"cat >{certificates}", certificates.read_bytes())
        environment = {**os.environ, "HOME": "/root", "USER": "root"}
        environment["PATH"] = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
        subprocess.run(
            [
                *("nsenter", f"--target={pid}", "--mount", "--pid", "--ipc", "--uts"),
                *("sh", "-c", f"cd {CHECKOUT} && tools/setup run"),
            ],
            env=environment,
            check=True,
        )


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebianMachine]:
    """Two phones as they come out of a box, a router, and a machine with a clone and its set-up."""
    from standin.record import native_target

    home = tmp_path_factory.mktemp("wifi")
    outside = home / "outside.yml"
    outside.write_text(
        RACK_FILE.replace("TARGET", native_target())
        .replace("rack: home", f"rack: {NAME}")
        .replace(f"controller: {NETWORK}.2", f"controller: {NETWORK}.1, services: {NETWORK}.2")
    )
    environment = {**os.environ, "PHONERACK_HOME": str(home), "PHONERACK_RACK": str(outside)}

    def standin(*arguments: str) -> str:
        command = [str(FLEETCTL), "standin", *arguments]
        done = subprocess.run(command, env=environment, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        phones = json.loads(standin("up", "-o", "json"))["phones"]
        leases = {phone["mac"]: phone["address"] for phone in phones}
        with dhcp_server(f"pr-{NAME}", leases, home):
            machine = DebianMachine(f"pr-{NAME}-services")
            subprocess.run(["podman", "exec", machine.container, "mkdir", CHECKOUT], check=True)
            machine.run("tar --extract", clone())
            machine.set_up()
            machine.run(
                "cat >inventory/rack.yml", RACK_FILE.replace("TARGET", native_target()).encode()
            )
            machine.run(f"mkdir -p {KEPT}/packages")
            packages = subprocess.run(
                ["tar", "--create", "."], cwd=home / NAME / "packages", capture_output=True
            )
            machine.run(f"tar --extract --directory {KEPT}/packages", packages.stdout)
            yield machine
    finally:
        standin("down")
        shutil.rmtree(home)


def clone() -> bytes:
    """What git would give: a tar of all files that it knows or would."""
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        check=True,
        capture_output=True,
    ).stdout
    there = b"\0".join(f for f in files.split(b"\0") if f and (PROJECT / f.decode()).exists())
    tar = ["tar", "--create", "--null", "--files-from=-"]
    return subprocess.run(tar, cwd=PROJECT, input=there, check=True, capture_output=True).stdout


def output(*command: str) -> str:
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout


def test_two_phones_on_wifi_are_provisioned_and_train(machine: DebianMachine) -> None:
    installed_here = output("dpkg-query", "-W")
    assert "not enrolled: phone[001-002]" in machine.run("fleetctl check rack")

    # Steps 5 and 6: the keys of both sides are made known to each other by hand.
    machine.run("ansible-playbook site.yml -t controller --limit controller")
    key = machine.run(f"cat {KEPT}/ssh/operator.pub").encode()
    for phone, address in PHONES.items():
        append = f"cat >>{TERMUX_HOME}/.ssh/authorized_keys"
        subprocess.run(
            ["podman", "exec", "-i", f"pr-{NAME}-{phone}", "/system/bin/sh", "-c", append],
            input=key,
            check=True,
        )
        shown = machine.run(f"ssh-keyscan -p 8022 -t ed25519 {address} | grep -v '^#'")
        _, kind, host_key = shown.split()
        machine.run(f"cat >>{KEPT}/ssh/known_hosts", f"{phone} {kind} {host_key}\n".encode())

    machine.run("ansible-playbook site.yml")
    again = machine.run("ansible-playbook site.yml")
    assert set(re.findall(r"changed=(\d+)", again)) == {"0"}
    assert set(re.findall(r"(?:failed|unreachable)=(\d+)", again)) == {"0"}

    machine.run("fleetctl data add digits")
    said = machine.run("fleetctl launch -n 2 examples/jobs/digits.yml", check=False)
    log = machine.run("fleetctl logs digits-1", check=False)
    assert re.search(r"^digits-1 done, test accuracy 9\d", said, re.MULTILINE), log
    (job,) = json.loads(machine.run("fleetctl jobs -o json"))["jobs"]
    assert (job["state"], job["phones"]) == ("done", list(PHONES))
    phones = json.loads(machine.run("fleetctl status -o json"))["phones"]
    assert [phone["state"] for phone in phones] == ["ready", "ready"]
    assert output("dpkg-query", "-W") == installed_here


UNITS = [f"phonerack-{service}-home.service" for service in ("serve", "guard")]
METRICS = "http://127.0.0.1:9867/metrics"


def test_its_two_services_run_come_back_after_a_crash_and_go_when_not_wanted(
    machine: DebianMachine,
) -> None:
    """As where phones are real ones; of stand-ins they are not wanted unless somebody says so."""

    def processes() -> list[str]:
        return [machine.run(f"systemctl show -P MainPID {unit}").strip() for unit in UNITS]

    def eventually(look: Callable[[], object]) -> None:
        deadline = time.monotonic() + 120
        while not look():
            assert time.monotonic() < deadline, machine.run("journalctl -n 50 --no-pager")
            time.sleep(1)

    def metrics() -> str:
        ask = f"import urllib.request as u; print(u.urlopen('{METRICS}').read().decode())"
        return machine.run(f'python -c "{ask}"', check=False)

    provision = "ansible-playbook site.yml -t controller --limit controller"
    machine.run(f"{provision} -e controller_serve=true")
    eventually(lambda: "phonerack_" in metrics())
    before = processes()
    assert "0" not in before
    assert "changed=0" in machine.run(f"{provision} -e controller_serve=true")
    assert processes() == before

    machine.run(f"kill -9 {' '.join(before)}")

    def is_back() -> bool:
        return not {"0", *before} & {*processes()} and "phonerack_" in metrics()

    eventually(is_back)
    assert machine.run("systemctl is-enabled " + " ".join(UNITS)).split() == ["enabled"] * 2

    machine.run(provision)
    assert processes() == ["0", "0"]
    assert machine.run("ls /etc/systemd/system/phonerack-*-home.service", check=False) == ""
