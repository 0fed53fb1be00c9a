"""Across a trunk that is changed: whose VLAN stays misses nothing, not for a moment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from switched_rack import SwitchedRack, awaited

from standin.enrolment import Folders
from standin.openvswitch import rpc

pytestmark = [pytest.mark.standin, pytest.mark.soak]

NEAR, FAR = "phone001", "phone003"
BUNDLES = {"sw1": "Port-channel1", "sw2": "Port-Channel1"}

CHANGES = (
    ("20: cameras, 40: attic", "10,20,40"),
    ("30: cellar, 50: roof", "10,30,50"),
    ("20: cameras, 30: cellar", "10,20,30"),
)
"""VLANs beside the phones', and what the trunk carries then."""

ECHO = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind(("", 9998))
    print("ready", flush=True)
    while True:
        server.sendto(*server.recvfrom(64))
"""
PING = """
import select, socket, sys, time
sent, lost, due = 0, set(), time.monotonic()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    client.connect((sys.argv[1], 9998))
    end = None
    while end is None or (lost and time.monotonic() < end):
        if end is None and time.monotonic() >= due:
            client.send(b"%d" % sent)
            lost.add(sent)
            sent, due = sent + 1, due + 0.01
            if sent == 1:
                print("ready", flush=True)
        ready, _, _ = select.select([client, sys.stdin], [], [], 0.002)
        if client in ready:
            lost.discard(int(client.recv(64)))
        if sys.stdin in ready:
            sys.stdin, end = client, time.monotonic() + 10
print(sent, len(lost))
"""


@dataclass
class Pings:
    """A hundred a second; one is lost whose echo has not come ten seconds after the last."""

    sent: int = 0
    lost: int = 0


@dataclass(frozen=True)
class TrunkRack(SwitchedRack):
    """The phones' VLAN 10, and others that come and go."""

    def write(self, others: str = "20: cameras, 30: cellar") -> None:
        super().write()
        text = self.file.read_text()
        self.file.write_text(text.replace("vlan: 10,", f"vlan: 10, vlans: {{{others}}},"))

    @contextmanager
    def pinging(self) -> Iterator[Pings]:
        """Ping from sw1 to sw2, over nothing but the trunk, while the block lasts."""
        address, pings = f"10.{self.subnet}.0.1{int(FAR[-1])}", Pings()
        pipes: dict[str, Any] = {
            **dict.fromkeys(("stdin", "stdout"), subprocess.PIPE),
            "text": True,
        }
        echo = subprocess.Popen([*self.enter(FAR), sys.executable, "-c", ECHO], **pipes)
        try:
            assert echo.stdout
            assert echo.stdout.readline() == "ready\n"
            ping = [*self.enter(NEAR), sys.executable, "-c", PING, address]
            with subprocess.Popen(ping, **pipes) as client:
                assert client.stdout
                assert client.stdin
                assert client.stdout.readline() == "ready\n"
                try:
                    yield pings
                finally:
                    client.stdin.close()
                    pings.sent, pings.lost = map(int, client.stdout.read().split())
        finally:
            echo.kill()
            echo.communicate()

    def stalls(self) -> int:
        """How often a switch's forwarding stood still for more than a second, by its own count."""
        folders = [Folders(self.folder / "standin").switches / name / "run" for name in BUNDLES]
        counter = ("coverage/read-counter", "long_poll_interval")
        return sum(int(rpc.call(folder, rpc.DAEMON, *counter)) for folder in folders)

    def carried(self) -> set[str]:
        """The lists of VLANs at both ends of the trunk."""
        lines = [
            line.strip()
            for switch in BUNDLES
            for line in self.show(switch, "show running-config").splitlines()
        ]
        return {line.split()[-1] for line in lines if "trunk allowed vlan" in line}


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrunkRack]:
    rack = TrunkRack("trunk-change", 150, tmp_path_factory.mktemp("trunk"))
    rack.write()
    try:
        rack.standin("up")
        for phone in (NEAR, "phone002", FAR):
            rack.address(phone)
        assert rack.provision() == ["changed", "changed"]
        assert awaited(lambda: rack.reaches(NEAR, FAR))
        yield rack
    finally:
        rack.standin("down")


def test_who_stays_loses_nothing_while_other_vlans_come_and_go(rack: TrunkRack) -> None:
    assert rack.carried() == {"10,20,30"}
    proven = 0
    for others, carried in CHANGES * 4:
        rack.write(others)
        stalled = rack.stalls()
        with rack.pinging() as pings:
            assert rack.provision() == ["changed", "changed"]
        assert rack.carried() == {carried}
        print(f"{carried}: {pings.sent} pings, {pings.lost} lost")
        assert pings.sent > 100
        if pings.lost and rack.stalls() > stalled:
            continue  # a switch had no time to forward anything: that is the machine's doing
        assert pings.lost == 0
        proven += 1
        if proven == len(CHANGES):
            break
    assert proven == len(CHANGES), "this machine is too busy to tell"


def test_a_list_that_is_typed_anew_after_it_was_removed_loses_some(rack: TrunkRack) -> None:
    """What the test above must notice: the same change, as a person in a hurry types it."""
    before = rack.carried()
    with rack.pinging() as pings:
        rack.type(
            "sw1",
            f"interface {BUNDLES['sw1']}",
            "switchport trunk allowed vlan remove 10,20,30",
            "switchport trunk allowed vlan add 10,20,30",
        )
    print(f"naively: {pings.sent} pings, {pings.lost} lost")
    assert rack.carried() == before
    assert 0 < pings.lost < pings.sent
