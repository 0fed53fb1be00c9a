"""Who may do what on a rack of stand-in phones, proven against their own sshd."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.serialization import SSHCertificateType
from which_rack import SUBNET

from fleetctl.provision.certificates import Grant, public_line, sign
from fleetctl.provision.keys import Authority
from fleetctl.provision.revocation import Revoked

if TYPE_CHECKING:
    from conftest import RackUnderTest

pytestmark = pytest.mark.standin

type Run = Callable[..., CompletedProcess[str]]

ALONE = "-F none -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=yes"
RANK = f"{ALONE} -i ~/.ssh/phonerack_rank -o CertificateFile=~/.ssh/phonerack_rank-cert.pub"
PHONES = "-p 8022 -o UserKnownHostsFile=$PREFIX/etc/ssh/phonerack_known_hosts"


@pytest.fixture
def ssh(provisioned_rack: RackUnderTest) -> Run:
    config = str(provisioned_rack.folder / "ssh_config")

    def run(host: str, command: str) -> CompletedProcess[str]:
        return provisioned_rack.run("ssh", "-F", config, host, command, check=False)

    return run


@pytest.mark.parametrize(
    ("attempt", "refusal"),
    [
        ("ssh phone002 true", "starts Open MPI's daemons only"),
        ("ssh phone002 'cat >>.ssh/authorized_keys' </dev/null", "starts Open MPI's daemons only"),
        ("ssh -tt phone002 </dev/null", "PTY allocation request failed"),
        ("scp -q /system/bin/init phone002:.ssh/authorized_keys", "onnection closed"),
        (f"ssh -W {SUBNET}.2:22 phone002 </dev/null", "administratively prohibited"),
        ("ssh -o ExitOnForwardFailure=yes -NR 7000:127.0.0.1:8022 phone002", "forwarding failed"),
        (f"ssh {RANK} {PHONES} -o HostKeyAlias=phone001 127.0.0.1 prted", "Permission denied"),
    ],
    ids=["command", "keys", "shell", "file", "forwarding", "back", "outside"],
)
def test_a_rank_may_not(ssh: Run, attempt: str, refusal: str) -> None:
    said = ssh("phone001", attempt)

    assert said.returncode != 0
    assert refusal in said.stdout + said.stderr


def test_a_rank_does_not_open_the_services_host(provisioned_rack: RackUnderTest, ssh: Run) -> None:
    known = (provisioned_rack.folder / "ssh/known_hosts").read_text().splitlines()
    (line,) = [line for line in known if line.startswith("services ")]
    options = "-o HostKeyAlias=services -o UserKnownHostsFile=$TMPDIR/known"

    said = ssh(
        "phone001",
        f"echo '{line}' >$TMPDIR/known; ssh {RANK} {options} root@{SUBNET}.2 true",
    )

    assert said.returncode != 0
    assert "Permission denied" in said.stderr


def test_a_rank_may_start_open_mpis_daemon(ssh: Run) -> None:
    said = ssh("phone001", "ssh phone002 'prted --version' || ssh phone002 'orted --version'")

    assert "PRRTE" in said.stdout + said.stderr or "OpenRTE" in said.stdout + said.stderr


@pytest.fixture
def stranger(provisioned_rack: RackUnderTest, ssh: Run, tmp_path: Path) -> Iterator[str]:
    """A rank's key with a good certificate, on phone001: the options of ssh that use it.

    Afterwards every phone gets the list on which it is.
    """
    folder, name = provisioned_rack.folder / "ssh", provisioned_rack.folder.name
    key = Authority(tmp_path / "stranger", "elsewhere").public
    authority = Authority(folder, name)
    grant = Grant(SSHCertificateType.USER, "stranger", ("rank",), source=f"{SUBNET}.0/24")
    files = {
        "stranger": (tmp_path / "stranger/ca").read_text(),
        "stranger-cert.pub": sign(authority.key, key, grant) + "\n",
    }
    for file, content in files.items():
        ssh("phone001", f"umask 077; cat >$TMPDIR/{file} <<'END'\n{content}END")
    authority.revoke([Revoked(public_line(key), "rank", "stranger")])
    yield "-i $TMPDIR/stranger -o CertificateFile=$TMPDIR/stranger-cert.pub"
    provisioned_rack.playbook("-t", "ssh")


@pytest.mark.soak
def test_a_revoked_key_opens_no_phone_and_a_phone_without_the_list_is_suspect(
    provisioned_rack: RackUnderTest, ssh: Run, stranger: str
) -> None:
    """The list reaches phone002 alone: the others are as phones that were away."""
    rack = provisioned_rack
    rack.playbook("-t", "ssh", "-l", "phone002")
    call = f"ssh {ALONE} {PHONES} {stranger}"

    refused, accepted = (
        ssh("phone001", f"{call} -o HostKeyAlias=phone00{n} {SUBNET}.1{n} 'prted --version'")
        for n in (2, 3)
    )

    assert "Permission denied" in refused.stderr
    assert accepted.returncode == 0, accepted.stderr
    states = {one["name"]: one["state"] for one in rack.fleetctl_json("status")["phones"]}
    assert states["phone002"] != "suspect"
    assert states["phone003"] == "suspect"
    checked = rack.fleetctl("check", "phone003", check=False)
    assert "the rack's version 1" in checked.stdout


@pytest.mark.soak
def test_an_edited_sshd_config_does_not_switch_the_racks_rules_off(
    provisioned_rack: RackUnderTest, ssh: Run
) -> None:
    """Somebody's copy, without the Include, which packages leave as it is."""
    rack, etc = provisioned_rack, "$PREFIX/etc/ssh"
    without = "grep -v -e ^Include -e ^PasswordAuthentication $TMPDIR/sshd_config"
    edit = f"{{ echo PasswordAuthentication yes; {without}; }} >{etc}/sshd_config"
    assert ssh("phone003", f"cp {etc}/sshd_config $TMPDIR/sshd_config; {edit}").returncode == 0
    try:
        checked = rack.fleetctl("check", "phone003", check=False)
        assert "its sshd does not go by the rack's trustedusercakeys" in checked.stdout
        assert "passwordauthentication" in checked.stdout

        rack.playbook("-t", "ssh", "-l", "phone003")

        said = ssh("phone003", "$PREFIX/bin/sshd -G").stdout.splitlines()
        assert "passwordauthentication no" in said
        assert rack.fleetctl("check", "phone003", check=False).stdout.count("sshd does not") == 0
        assert ssh("phone001", "ssh phone003 'prted --version'").returncode == 0

        ssh("phone003", f"echo PasswordAuthentication yes >{etc}/sshd_config.d/own.conf")
        ssh("phone003", f"cp $TMPDIR/sshd_config {etc}/sshd_config")
        refused = rack.playbook("-t", "ssh", "-l", "phone003", check=False)
        assert "sshd does not go by `passwordauthentication no`" in " ".join(refused.stdout.split())
    finally:
        ssh("phone003", f"rm -f {etc}/sshd_config.d/own.conf")
        ssh("phone003", f"cp $TMPDIR/sshd_config {etc}/sshd_config")
        rack.playbook("-t", "ssh", "-l", "phone003")


@pytest.mark.soak
def test_a_phone_whose_clock_is_at_1970_is_reached_and_people_are_told(
    provisioned_rack: RackUnderTest, ssh: Run
) -> None:
    rack = provisioned_rack
    rack.fleetctl("standin", "fault", "phone006", "clock=1970")
    try:
        deadline = time.monotonic() + 120
        while ssh("phone006", "date +%Y").stdout.strip() != "1970":
            assert time.monotonic() < deadline, "phone006 is not reached, or has another clock"
            time.sleep(1)
        # From another phone too: both certificates count.
        assert ssh("phone001", "ssh phone006 'prted --version'").returncode == 0
        assert ssh("phone006", "ssh phone001 'prted --version'").returncode == 0
        said = rack.fleetctl("check", "phone006", check=False)
        assert "its clock is" in said.stdout
        rack.playbook("-t", "ssh", "-l", "phone006")
    finally:
        rack.fleetctl("standin", "heal", "phone006")


def stratum(address: str) -> int | None:
    """What an NTP server says how far it is from a real clock; None if it says nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(3)
        try:
            client.connect((address, 123))
            client.send(b"\x23" + bytes(47))
            answer = client.recv(100)
        except OSError:
            return None
    seconds = struct.unpack("!I", answer[40:44])[0] - 2_208_988_800
    assert abs(seconds - time.time()) < 30
    return answer[1]


def test_the_services_host_tells_the_time_in_the_racks_network_only(
    provisioned_rack: RackUnderTest, ssh: Run
) -> None:
    outside = ssh("services", "ip -4 -o address show eth0").stdout.split()[3].split("/")[0]

    assert stratum(f"{SUBNET}.2") in range(1, 16)
    assert stratum(outside) is None
    assert ":323 " not in ssh("services", "ss -lun").stdout
