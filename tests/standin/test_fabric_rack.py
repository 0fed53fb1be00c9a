"""A stand-in rack on this machine: comes up whole, is mended, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from small_rack import FLEETCTL, PHONES, SmallRack, output

pytestmark = pytest.mark.standin


def traces(rack: SmallRack) -> list[str]:
    """All that there is of a rack on this machine: whatever bears its name or lies in its home."""
    links = json.loads(output("ip", "-json", "link", "show"))
    found = [
        *output("podman", "ps", "--all", "--format={{.Names}}").splitlines(),
        *output("podman", "volume", "ls", "--quiet").splitlines(),
        *output("losetup", "--list", "--noheadings", "--output=BACK-FILE").splitlines(),
        *(f"namespace {path.name}" for path in Path("/run/netns").glob("*")),
        *(f"interface {link['ifname']}" for link in links),
        *Path("/proc/self/mountinfo").read_text().splitlines(),
        *processes(),
        *map(str, rack.home.iterdir()),
    ]
    ours = (rack.namespace, str(rack.folder))
    return [trace for trace in found if any(mark in trace for mark in ours)]


def remains(rack: SmallRack) -> list[str]:
    """Traces that last: the engine's monitor of a container outlives it for a moment."""
    deadline = time.monotonic() + 60
    while (found := traces(rack)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def processes() -> Iterator[str]:
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield place.read_text(errors="replace").replace("\0", " ")


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallRack]:
    rack = SmallRack("fabric-test", 143, tmp_path_factory.mktemp("fabric"))
    rack.write()
    # Images are made by the first rack of all; they are no trace.
    rack.standin("up")
    rack.standin("down")
    yield rack
    rack.standin("down")


def test_down_leaves_nothing_of_a_rack_that_was_up(rack: SmallRack) -> None:
    rack.standin("up", "--rate", "200mbit")
    assert {f"{rack.namespace}-{phone}" for phone in PHONES} < set(traces(rack))
    rack.standin("down")
    assert remains(rack) == []


@pytest.mark.soak
def test_down_copes_with_a_rack_that_is_half_gone_and_with_none(rack: SmallRack) -> None:
    rack.standin("up")
    output("podman", "rm", "--force", "--time=0", f"{rack.namespace}-phone002")
    output("podman", "pause", f"{rack.namespace}-phone001")
    output("ip", "netns", "delete", rack.namespace)
    rack.standin("down")
    rack.standin("down")
    assert remains(rack) == []


def test_an_interrupted_up_is_rolled_back(rack: SmallRack) -> None:
    up = subprocess.Popen(
        [FLEETCTL, "standin", "up"],
        env=rack.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while f"{rack.namespace}-phone" not in output("podman", "ps", "--format={{.Names}}"):
        assert up.poll() is None
        time.sleep(0.05)
    up.send_signal(signal.SIGINT)
    assert up.wait(timeout=120) == 130
    assert remains(rack) == []


@pytest.mark.soak
def test_up_mends_what_is_missing_and_leaves_the_rest(rack: SmallRack) -> None:
    rack.standin("up")
    pid = output("podman", "inspect", "-f", "{{.State.Pid}}", f"{rack.namespace}-phone004")
    output("podman", "rm", "--force", "--time=0", f"{rack.namespace}-phone002")
    output("podman", "kill", f"{rack.namespace}-phone003")
    output("ip", "-n", rack.namespace, "link", "delete", "sw1.1")
    output("ip", "-n", rack.namespace, "link", "delete", "sw2")
    mended = json.loads(rack.standin("up", "-o", "json"))
    assert mended["was_up"]
    assert mended["started"] == ["phone002", "phone003"]
    assert output("podman", "inspect", "-f", "{{.State.Pid}}", f"{rack.namespace}-phone004") == pid
    with rack.dhcp():
        assert all(rack.answers(phone) for phone in PHONES)
    rack.standin("down")


@pytest.mark.soak
def test_two_racks_stand_side_by_side(rack: SmallRack, tmp_path: Path) -> None:
    other = SmallRack("fabric-test-2", 144, tmp_path)
    other.write()
    rack.standin("up")
    try:
        other.standin("up")
        with rack.dhcp(), other.dhcp():
            assert rack.answers("phone004")
            assert other.answers("phone004")
        other.standin("down")
        assert rack.seen()["phone001"] == ("running", [])
    finally:
        other.standin("down")
        rack.standin("down")


@pytest.mark.soak
def test_a_rack_in_the_network_of_another_is_refused_and_disturbs_nobody(
    rack: SmallRack, tmp_path: Path
) -> None:
    rack.standin("up")
    other = SmallRack("fabric-test-2", rack.subnet, tmp_path)
    other.write()
    refused = other.try_standin("up")
    assert refused.returncode == 2
    assert "overlaps 10.143.0.0/24" in refused.stderr
    assert traces(other) == []
    assert rack.seen()["phone001"] == ("running", [])
    rack.standin("down")


@pytest.mark.soak
def test_a_rack_that_is_kept_elsewhere_under_the_same_name_is_refused_and_left_alone(
    rack: SmallRack, tmp_path: Path
) -> None:
    rack.standin("up")
    other = SmallRack(rack.name, rack.subnet, tmp_path)
    other.write()
    for order in ("up", "down"):
        refused = other.try_standin(order)
        assert refused.returncode == 1
        assert f"kept in {rack.folder}" in refused.stderr
        assert "PHONERACK_HOME" in refused.stderr
    assert rack.seen()["phone001"] == ("running", [])
    rack.standin("down")


def test_a_rack_of_real_phones_is_never_stood_up(rack: SmallRack, tmp_path: Path) -> None:
    real = SmallRack("fabric-real", 145, tmp_path)
    real.write()
    real.file.write_text(real.file.read_text().replace("linux-x86_64", "termux-aarch64"))
    refused = real.try_standin("up")
    assert refused.returncode == 2
    assert "is no stand-in rack" in refused.stderr


@pytest.mark.soak
def test_other_numbers_of_phones_and_switches_get_a_rack_file_of_their_own(
    rack: SmallRack,
) -> None:
    made = json.loads(rack.standin("up", "--phones", "3", "--switches", "1", "-o", "json"))
    assert made["rack_file"] == str(rack.folder / "rack.yml")
    assert [phone["port"] for phone in made["phones"]] == [1, 2, 3]
    refused = rack.try_standin("up")
    assert refused.returncode == 2
    assert f"PHONERACK_RACK={rack.folder}/rack.yml" in refused.stderr
    rack.standin("down")


def test_links_are_shaped_at_both_ends(rack: SmallRack) -> None:
    rack.standin("up", "--rate", "200mbit")
    pid = output("podman", "inspect", "-f", "{{.State.Pid}}", f"{rack.namespace}-phone003")
    inside = output("nsenter", "-t", pid.strip(), "-n", "tc", "qdisc", "show", "dev", "eth0")
    outside = output("tc", "-n", rack.namespace, "qdisc", "show", "dev", "sw2.1")
    assert "tbf" in inside
    assert "rate 200Mbit" in inside
    assert "rate 200Mbit" in outside
    rack.standin("down")


def test_the_rack_has_no_way_out(rack: SmallRack) -> None:
    rack.standin("up")
    link = next(path.name for path in Path("/sys/class/net").glob("pr-fabric*"))
    assert Path(f"/proc/sys/net/ipv4/conf/{link}/forwarding").read_text() == "0\n"
    with rack.dhcp():
        assert rack.answers("phone001")
        pid = output("podman", "inspect", "-f", "{{.State.Pid}}", f"{rack.namespace}-phone001")
        routes = output("nsenter", "-t", pid.strip(), "-n", "ip", "route")
    assert "default" not in routes
    rack.standin("down")
