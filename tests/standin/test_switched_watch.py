"""What is seen of a live rack: its switches by SNMP, and an unmanaged switch beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from small_rack import output
from switched_rack import COMMUNITY, SwitchedRack, awaited

from exporters.switches.__main__ import Watch
from exporters.switches.settings import parse_settings
from fleetctl.provision.switch_exporter import settings
from fleetctl.rack import load_rack
from standin.enrolment import Folders
from standin.openvswitch import rpc

pytestmark = [pytest.mark.standin, pytest.mark.soak]

ONE, TWO, FAR, BEHIND = "phone001", "phone002", "phone003", "phone004"
type Values = dict[str, dict[tuple[str, ...], float]]


@dataclass(frozen=True)
class WatchedRack(SwitchedRack):
    """phone004 hangs on an unmanaged switch, behind a single cable to sw1."""

    def write(self) -> None:
        super().write()
        from standin.record import native_target

        text = self.file.read_text()
        network = f"10.{self.subnet}.0"
        text = text.replace("mtu: 2000", "snmp: {community: snmp_community}")
        text = text.replace("uplinks: {sw2: 9-10}", "uplinks: {sw2: 9-10, sw3: 8}")
        text = text.replace("phones:", "  sw3: {ports: 8, uplinks: {sw1: 8}}\nphones:")
        phone = f"{{target: {native_target()}, switch: sw3, ports: 1, addresses: {network}.14}}"
        self.file.write_text(f"{text.rstrip()}\n  - {phone}\n")


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedRack]:
    rack = WatchedRack("switched-watch", 148, tmp_path_factory.mktemp("watched"))
    rack.write()
    try:
        rack.standin("up")
        for phone in (ONE, TWO, FAR, BEHIND):
            rack.address(phone)
        assert rack.provision() == ["changed", "changed"]
        yield rack
    finally:
        rack.standin("down")


@pytest.fixture
def watches(rack: WatchedRack) -> list[Watch]:
    """The exporter's readers, one a switch, as on the services host."""
    file = rack.home / "community"
    file.write_text(COMMUNITY)
    document = settings(load_rack(rack.file), str(file))
    assert document
    told = parse_settings(document)
    return [Watch(switch, told) for switch in told.switches]


def read(watches: list[Watch]) -> Values:
    """All samples by metric, then by labels."""
    found: Values = {}
    for watch in watches:
        watch.read()
        for sample in watch.samples():
            name = sample.metric.name.removeprefix("phonerack_switch_")
            found.setdefault(name, {})[sample.labels] = sample.value
    return found


def test_phones_behind_an_unmanaged_switch_are_reached_and_found_there(rack: WatchedRack) -> None:
    assert awaited(lambda: rack.reaches(BEHIND, ONE) and rack.reaches(FAR, BEHIND))
    told = awaited(lambda: checked if (checked := cables(rack))["behind"] else {})
    assert told["behind"] == {BEHIND: "sw3"}
    assert told["right"] == [ONE, TWO, FAR]
    assert told["findings"] == []
    refused = rack.fleetctl("power", BEHIND, "--port", "off")
    assert refused.returncode == 2
    assert "sw3 is unmanaged" in refused.stderr


def cables(rack: WatchedRack) -> dict[str, object]:
    told: dict[str, object] = json.loads(rack.fleetctl("check", "cables", "-o", "json").stdout)
    return told


def test_the_exporter_sees_what_really_happens_to_links(
    rack: WatchedRack, watches: list[Watch]
) -> None:
    here = ("sw1", "1", ONE)
    before = awaited(lambda: found if (found := read(watches))["port_up"].get(here) else {})
    assert set(before["up"].values()) == {1}
    assert set(before["drift"].values()) == {0}
    assert before["port_speed_bytes"][here] == 125e6
    assert before["port_flaps_total"][here] == 0
    assert {labels[0] for labels in before["port_up"]} == {"sw1", "sw2"}
    assert rack.hears(TWO, ONE, 1000)
    counted = before["port_receive_bytes_total"][here]
    assert awaited(lambda: read(watches)["port_receive_bytes_total"][here] >= counted + 1000)
    rack.standin("fault", ONE, "flap=4s")
    rack.standin("fault", TWO, "100mbit")
    assert awaited(lambda: read(watches)["port_flaps_total"][here] >= 2)
    slow = ("sw1", "2", TWO)
    assert awaited(lambda: read(watches)["port_speed_bytes"].get(slow) == 12.5e6)
    rack.standin("heal")
    assert awaited(lambda: read(watches)["port_speed_bytes"].get(slow) == 125e6)


def test_counters_move_with_what_really_passes_and_the_command_line_tells_what_snmp_tells(
    rack: WatchedRack, watches: list[Watch]
) -> None:
    ports = {ONE: ("sw1", "Gi1/0/1", "1"), FAR: ("sw2", "Et1", "1")}

    def shown(phone: str) -> tuple[int, int]:
        """Octets in and out of its port, as `show interfaces counters` prints them."""
        switch, port, _ = ports[phone]
        table = rack.show(switch, "show interfaces counters").splitlines()
        came, went = (int(line.split()[1]) for line in table if line.startswith(f"{port} "))
        return came, went

    def read_out(phone: str) -> tuple[float, float]:
        switch, _, number = ports[phone]
        found, labels = read(watches), (switch, number, phone)
        return (
            found["port_receive_bytes_total"][labels],
            found["port_transmit_bytes_total"][labels],
        )

    before = {phone: shown(phone) for phone in ports}
    size, count = 1000, 50
    for _ in range(count):
        assert rack.hears(FAR, ONE, size)
    least = size * count
    came, _ = shown(ONE)
    _, went = shown(FAR)
    assert came - before[ONE][0] >= least
    assert went - before[FAR][1] >= least
    # Headers, and who asks for whom: no more than half as much again.
    assert came - before[ONE][0] < 1.5 * least
    for phone in ports:
        # In between something may pass, if little: that the two agree is seen on a quiet port.
        assert awaited(lambda: shown(phone) == read_out(phone)), (shown(phone), read_out(phone))  # noqa: B023


def test_a_port_that_is_cut_off_on_purpose_is_down_and_no_drift(
    rack: WatchedRack, watches: list[Watch]
) -> None:
    there = ("sw2", "1", FAR)
    for way in (["poe=0"], ["poe=370"]):
        rack.standin("switch", "sw2", *way)
        done = rack.fleetctl("power", FAR, "--port", "off")
        assert done.returncode == 0, done.stderr
        found = read(watches)
        assert found["port_enabled"][there] == 0
        assert found["port_up"][there] == 0
        assert set(found["drift"].values()) == {0}
        assert found.get("port_poe_feeding", {}).get(there, 0) == 0
        done = rack.fleetctl("power", FAR, "--port", "on")
        assert done.returncode == 0, done.stderr
    assert read(watches)["port_poe_feeding"][there] == 1
    rack.standin("switch", "sw2", "--usual")
    rack.type("sw2", "interface Et1", "shutdown")
    assert read(watches)["drift"][(*there, "enabled")] == 1
    rack.type("sw2", "interface Et1", "no shutdown")
    assert awaited(lambda: rack.reaches(FAR, ONE))


def test_a_bundle_goes_on_while_one_of_its_cables_is_away(rack: WatchedRack) -> None:
    """Both ends have agreed on it by LACP, and on which cables are in it."""

    def members() -> dict[str, str]:
        """What LACP says of sw1's cables: `current` is one whose other end answers."""
        folder = Folders(rack.folder / "standin").switches / "sw1" / "run"
        said = str(rpc.call(folder, rpc.DAEMON, "lacp/show"))
        lines = [
            line.split() for line in said.splitlines() if line.startswith(("slave:", "member:"))
        ]
        return {words[1].rstrip(":"): words[2] for words in lines}

    both = {"sw1.9": "current", "sw1.10": "current"}
    assert awaited(lambda: members() == both)
    for cable in both:
        output("ip", "-n", f"{rack.namespace}.sw1", "link", "set", cable, "down")
        assert awaited(lambda: members()[cable] != "current")  # noqa: B023
        assert awaited(lambda: rack.reaches(ONE, FAR))
        output("ip", "-n", f"{rack.namespace}.sw1", "link", "set", cable, "up")
        assert awaited(lambda: members() == both)
    assert awaited(lambda: rack.reaches(ONE, FAR))
