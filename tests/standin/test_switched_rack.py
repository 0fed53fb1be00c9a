"""Configuration of stand-in switches has effect: on phones, on the other switch, on themselves."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from small_rack import output
from switched_rack import MTU, SwitchedRack, awaited

from fleetctl.bench import mtu_probe
from fleetctl.bench.links import payload_bytes

pytestmark = pytest.mark.standin

ONE, TWO, FAR = "phone001", "phone002", "phone003"
SWITCHES = ("sw1", "sw2")


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SwitchedRack]:
    """A rack whose phones have their addresses; each test leaves its switches as they were."""
    rack = SwitchedRack("switched-test", 147, tmp_path_factory.mktemp("switched"))
    rack.write()
    try:
        rack.standin("up")
        rack.hasten()
        for phone in (ONE, TWO, FAR):
            rack.address(phone)
        yield rack
    finally:
        rack.standin("down")


def cut_off(rack: SwitchedRack, one: str, other: str) -> bool:
    return awaited(lambda: not rack.reaches(one, other))


def together(rack: SwitchedRack, one: str, other: str) -> bool:
    return awaited(lambda: rack.reaches(one, other))


def status(rack: SwitchedRack, port: str) -> str:
    """The line of a port of sw1 in `show interfaces status`."""
    lines = rack.show("sw1", "show interfaces status").splitlines()
    return next(line for line in lines if line.startswith(f"{port} "))


def test_new_switches_let_everybody_reach_everybody_over_two_cables(rack: SwitchedRack) -> None:
    assert together(rack, ONE, TWO)
    assert together(rack, ONE, FAR)


def test_a_cable_that_is_shut_is_replaced_by_the_other(rack: SwitchedRack) -> None:
    rack.type("sw1", "interface Gi1/0/9", "shutdown")
    assert together(rack, ONE, FAR)
    rack.type("sw1", "interface Gi1/0/9", "no shutdown")
    assert together(rack, ONE, FAR)


def test_the_mac_table_is_what_was_heard(rack: SwitchedRack) -> None:
    mac = json.loads(output(*rack.enter(ONE), "ip", "-json", "link", "show", "eth0"))[0]["address"]
    digits = mac.replace(":", "")
    dotted = ".".join(digits[place : place + 4] for place in (0, 4, 8))

    def heard(switch: str) -> list[list[str]]:
        table = rack.show(switch, "show mac address-table").splitlines()
        return [line.split()[:4] for line in table if dotted in line]

    def both_heard() -> dict[str, list[list[str]]]:
        """Both tables, once both know it: a change of the tree, as by the test before, makes
        switches forget, at any moment until all of them have followed."""
        rack.reaches(FAR, ONE)
        tables = {switch: heard(switch) for switch in SWITCHES}
        return tables if all(tables.values()) else {}

    tables = awaited(both_heard)
    assert tables["sw1"] == [["10", dotted, "DYNAMIC", "Gi1/0/1"]]
    (row,) = tables["sw2"]
    assert row[:3] == ["10", dotted, "DYNAMIC"]
    assert row[3] in ("Et9", "Et10")


def test_a_wrong_vlan_cuts_a_phone_off(rack: SwitchedRack) -> None:
    rack.type("sw1", "interface Gi1/0/1", "switchport access vlan 30")
    assert cut_off(rack, ONE, TWO)
    assert together(rack, TWO, FAR)
    rack.type("sw1", "interface Gi1/0/1", "switchport access vlan 10")
    assert together(rack, ONE, TWO)


def test_a_shutdown_takes_the_carrier_and_a_pulled_cable_keeps_it_away(rack: SwitchedRack) -> None:
    rack.type("sw1", "interface Gi1/0/1", "shutdown")
    assert not rack.has_carrier(ONE)
    assert rack.seen()[ONE] == ("running", [])
    rack.standin("fault", ONE, "unplug")
    rack.type("sw1", "interface Gi1/0/1", "no shutdown")
    assert not rack.has_carrier(ONE)
    assert rack.seen()[ONE] == ("running", ["unplug"])
    assert awaited(lambda: "notconnect" in status(rack, "Gi1/0/1"))
    rack.standin("heal", ONE)
    assert rack.has_carrier(ONE)
    assert together(rack, ONE, TWO)


@pytest.mark.soak
def test_a_phone_that_starts_anew_finds_its_port_as_it_was(rack: SwitchedRack) -> None:
    rack.type("sw1", "interface Gi1/0/2", "switchport access vlan 30")
    rack.standin("fault", TWO, "reboot")
    rack.address(TWO)
    assert cut_off(rack, TWO, ONE)
    rack.type("sw1", "interface Gi1/0/2", "shutdown", "switchport access vlan 10")
    rack.standin("fault", TWO, "reboot")
    rack.address(TWO)
    assert not rack.has_carrier(TWO)
    rack.type("sw1", "interface Gi1/0/2", "no shutdown")
    assert together(rack, TWO, ONE)


@pytest.mark.soak
def test_frames_that_are_too_long_for_a_switch_do_not_pass_and_the_probe_tells(
    rack: SwitchedRack,
) -> None:
    def passes(size_bytes: int) -> bool:
        return rack.hears(TWO, ONE, size_bytes)

    def probed() -> str:
        """What `bench net` and the verify phase have a phone try: whole packets of the rack's."""
        probe = [sys.executable, mtu_probe.__file__, f"10.{rack.subnet}.0.11"]
        return output(*rack.enter(TWO), *probe, str(payload_bytes(MTU))).strip()

    assert awaited(lambda: passes(1400))
    assert not passes(1900)
    assert probed() == "small"
    rack.type("sw1", "system mtu 2000")
    assert awaited(lambda: passes(1900))
    assert probed() == "arrives"
    rack.type("sw1", "no system mtu")
    assert not passes(1900)


@pytest.mark.soak
def test_the_speed_of_a_port_is_what_its_link_carries(rack: SwitchedRack) -> None:
    def speeds() -> list[str]:
        return [status(rack, port).split()[-2] for port in ("Gi1/0/1", "Gi1/0/2")]

    rack.standin("fault", ONE, "100mbit")
    assert awaited(lambda: speeds() == ["a-100", "a-1000"])
    rack.type("sw1", "interface Gi1/0/2", "speed 100")
    rack.standin("heal", ONE)
    assert awaited(lambda: speeds() == ["a-1000", "a-100"])
    shown = output(*rack.enter(TWO), "tc", "qdisc", "show", "dev", "eth0")
    assert "rate 10Mbit" in shown
    rack.type("sw1", "interface Gi1/0/2", "no speed")
    assert awaited(lambda: speeds() == ["a-1000", "a-1000"])


def test_a_trunk_without_the_vlan_splits_the_rack_until_the_timer_ends(rack: SwitchedRack) -> None:
    rack.hasten(1)  # so that the timer does not end before anybody has looked
    with rack.login("sw2") as connection:
        lines = ["configure session split"]
        for port in ("Ethernet9", "Ethernet10"):
            lines += [
                *(f"interface {port}", "switchport mode trunk"),
                "switchport trunk allowed vlan 20",
            ]
        for line in (*lines, "commit timer 00:10:00"):
            connection.write_channel(f"{line}\n")
        assert cut_off(rack, ONE, FAR)
    assert together(rack, ONE, TWO)
    rack.hasten()
    assert together(rack, ONE, FAR)
    assert awaited(lambda: rack.has_logged("sw2", "session split aborted: timer"))


def test_a_reboot_takes_all_carriers_and_loads_what_was_saved(rack: SwitchedRack) -> None:
    rack.type("sw1", "interface Gi1/0/2", "switchport access vlan 30")
    with rack.login("sw1") as connection:
        connection.send_command("reload", expect_string=r"Save\?")
        connection.send_command("no", expect_string="confirm", read_timeout=30)
        connection.write_channel("\n")
    assert awaited(lambda: rack.has_logged("sw1", "went down: reload"))
    assert together(rack, TWO, FAR)
    assert "access vlan 30" not in rack.show("sw1", "show running-config")


def test_uplinks_become_a_bundle_and_cables_are_checked(rack: SwitchedRack) -> None:
    rack.hasten(1)
    assert rack.provision() == ["changed", "changed"]
    assert together(rack, ONE, FAR)
    assert rack.provision() == ["unchanged", "unchanged"]
    checked = rack.fleetctl("check", "cables")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "3 phones are where the rack file says" in checked.stdout
    near = "sw2                 Gi1/0/9"
    assert awaited(lambda: near in rack.show("sw1", "show lldp neighbors"))
    # One of two cables is enough.
    output("ip", "-n", f"{rack.namespace}.sw1", "link", "set", "sw1.9", "down")
    assert together(rack, ONE, FAR)
    output("ip", "-n", f"{rack.namespace}.sw1", "link", "set", "sw1.9", "up")


@pytest.mark.soak
def test_two_phones_in_each_others_port_are_named_until_they_are_put_back(
    rack: SwitchedRack,
) -> None:
    def cables() -> str:
        return rack.fleetctl("check", "cables").stdout

    rack.standin("fault", ONE, f"swap-port={FAR}")
    assert rack.seen()[ONE] == ("running", [f"swap-port={FAR}"])
    assert rack.seen()[FAR] == ("running", [f"swap-port={ONE}"])
    swapped = f"{ONE} and {FAR} are swapped: port 1 of sw1 and port 1 of sw2"
    assert awaited(lambda: swapped in cables())
    assert together(rack, ONE, TWO)
    # What happens to a port happens to the phone that is in it.
    rack.type("sw1", "interface Gi1/0/1", "shutdown")
    assert not rack.has_carrier(FAR)
    assert rack.has_carrier(ONE)
    rack.type("sw1", "interface Gi1/0/1", "no shutdown")
    refused = rack.try_standin("fault", TWO, f"swap-port={ONE}")
    assert refused.returncode == 2
    assert f"heal {ONE} first" in refused.stderr
    rack.standin("fault", FAR, "reboot")
    rack.address(FAR)
    assert together(rack, FAR, TWO)
    rack.standin("heal", FAR)
    assert rack.seen() == dict.fromkeys((ONE, TWO, FAR), ("running", []))
    assert awaited(lambda: "3 phones are where the rack file says" in cables())


def test_switches_are_made_troublesome_by_hand_and_configured_all_the_same(
    rack: SwitchedRack,
) -> None:
    troubles = ["latency=0.05", "paging=on", "echo-twice=on", "sha1-only=on", "prompt-chars=20"]
    shown = json.loads(rack.standin("switch", "sw1", "sw2", *troubles, "-o", "json"))["switches"]
    assert [item["knobs"] for item in shown] == [
        ["latency=0.05", "echo-twice=on", "prompt-chars=20", "sha1-only=on"]
    ] * 2
    assert rack.provision() == ["unchanged", "unchanged"]
    refused = rack.try_standin("switch", "sw1", "melt=1")
    assert refused.returncode == 2
    assert "freeze-seconds=" in refused.stderr
    rack.standin("switch", "sw1", "sw2", "--usual")
    assert "latency" not in rack.standin("switch")


def test_a_port_is_cut_off_and_given_back(rack: SwitchedRack) -> None:
    off = rack.fleetctl("power", ONE, "--port", "off")
    assert off.returncode == 0, off.stderr
    assert not rack.has_carrier(ONE)
    assert "description phone001-off" in rack.show("sw1", "show running-config")
    assert rack.provision() == ["unchanged", "unchanged"]
    on = rack.fleetctl("power", ONE, "--port", "on")
    assert on.returncode == 0, on.stderr
    assert together(rack, ONE, TWO)


@pytest.mark.soak
def test_a_session_that_drops_in_mid_push_leaves_the_old_configuration(rack: SwitchedRack) -> None:
    wrong = ("description wrong", "no spanning-tree bpduguard", "speed 100")
    rack.type("sw1", "interface Gi1/0/1", *wrong, "interface Gi1/0/2", *wrong)
    rack.type("sw2", "interface Et1", *wrong)
    rack.standin("switch", "sw1", "sw2", "drop=14")
    told = rack.provision()
    assert all("the old configuration is back" in text for text in told), told
    assert "description wrong" in rack.show("sw1", "show running-config")
    assert together(rack, ONE, FAR)
    assert rack.provision() == ["changed", "changed"]
    assert "description wrong" not in rack.show("sw1", "show running-config")


@pytest.mark.soak
def test_up_mends_switches_and_wires_and_what_was_saved_is_still_there(rack: SwitchedRack) -> None:
    output("podman", "kill", f"{rack.namespace}.sw1")
    output("ip", "-n", f"{rack.namespace}.sw2", "link", "delete", "sw2.9")
    rack.standin("up")
    assert together(rack, ONE, FAR)
    assert "channel-group 1" in rack.show("sw1", "show running-config")
    output("podman", "rm", "--force", "--time=0", f"{rack.namespace}.sw2")
    output("ip", "netns", "delete", f"{rack.namespace}.sw2")
    rack.standin("up")
    rack.address(FAR)
    assert together(rack, ONE, FAR)
    assert "channel-group 1" in rack.show("sw2", "show running-config")
    assert "3 phones are where" in rack.fleetctl("check", "cables").stdout


def test_down_leaves_nothing_of_switches(rack: SwitchedRack) -> None:
    rack.standin("down")

    def is_gone() -> bool:
        """The engine's monitor of a container outlives it for a moment."""
        commands = (
            ("ip", "netns", "list"),
            ("podman", "ps", "--all", "--format={{.Names}}"),
            ("ip", "-brief", "link"),
            ("ps", "-eo", "args"),
        )
        return not any(rack.namespace in output(*command) for command in commands)

    assert awaited(is_gone)
