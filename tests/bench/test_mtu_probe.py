"""The MTU probe between two network namespaces, one link of which is narrower than it says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleetctl.bench.links import payload_bytes

PROBE = Path(__file__).resolve().parents[2] / "fleetctl/bench/mtu_probe.py"

pytestmark = pytest.mark.root


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def link() -> Iterator[Callable[[int, int], str]]:
    """Makes two namespaces joined by a link with these MTUs; the probe runs in the first."""
    here, there = f"mtu-a-{os.getpid()}", f"mtu-b-{os.getpid()}"

    def make(mine: int, theirs: int) -> str:
        for name in (here, there):
            ip("netns", "add", name)
        ip("-n", here, "link", "add", "e0", "type", "veth", "peer", "name", "e0", "netns", there)
        for name, address, mtu in ((here, "10.99.0.1/24", mine), (there, "10.99.0.2/24", theirs)):
            ip("-n", name, "link", "set", "e0", "mtu", str(mtu), "up")
            ip("-n", name, "address", "add", address, "dev", "e0")
        return here

    yield make
    for name in (here, there):
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def probe(namespace: str, address: str, mtu: int) -> str:
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, sys.executable, "-", address, str(payload_bytes(mtu))],
        input=PROBE.read_text(),
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_a_whole_packet_arrives(link: Callable[[int, int], str]) -> None:
    assert probe(link(1500, 1500), "10.99.0.2", 1500) == "arrives"


def test_a_narrow_place_on_the_way_loses_whole_packets_only(
    link: Callable[[int, int], str],
) -> None:
    # The far end's link takes 1400 bytes at most and drops what is longer, as switches do.
    assert probe(link(1500, 1400), "10.99.0.2", 1500) == "small"


def test_the_phones_own_mtu_is_told_apart(link: Callable[[int, int], str]) -> None:
    assert probe(link(1400, 1500), "10.99.0.2", 1500) == "local"


def test_where_nobody_answers_nothing_is_known(link: Callable[[int, int], str]) -> None:
    assert probe(link(1500, 1500), "10.99.0.77", 1500) == "silent"
