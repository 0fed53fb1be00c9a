"""What a stand-in switch does to its ports, and how its screen behaves."""

from __future__ import annotations

from bench import PORTS, Bench

from standin.switches.device import BOOT_SECONDS, Knobs
from standin.switches.plane import End
from standin.switches.session import Session
from standin.switches.terminal import Terminal

PHONE, OTHER, FAR = "02:00:5e:10:00:01", "02:00:5e:10:00:02", "02:00:5e:10:00:03"


def two_switches() -> tuple[Bench, Bench]:
    """sw1 and sw2, joined at port 9; PHONE and OTHER at sw1, FAR at sw2."""
    one = Bench("ios")
    two = Bench("eos", network=one.network, name="sw2")
    one.network.cables.append((End("sw1", PORTS["ios"][8]), End("sw2", PORTS["eos"][8])))
    one.network.hosts |= {
        PHONE: End("sw1", PORTS["ios"][0]),
        OTHER: End("sw1", PORTS["ios"][1]),
        FAR: End("sw2", PORTS["eos"][0]),
    }
    return one, two


def test_a_new_network_lets_everybody_reach_everybody() -> None:
    one, _ = two_switches()
    assert one.network.reaches(PHONE, OTHER)
    assert one.network.reaches(PHONE, FAR)


def test_a_wrong_vlan_cuts_a_phone_off() -> None:
    one, _ = two_switches()
    one.type("conf t", "int gi1/0/1", "switchport access vlan 30")
    assert not one.network.reaches(PHONE, OTHER)
    assert one.network.reaches(OTHER, FAR)


def test_a_shutdown_takes_the_carrier() -> None:
    one, _ = two_switches()
    assert one.device.plane.linked(PORTS["ios"][0])
    one.type("conf t", "int gi1/0/1", "shutdown")
    assert not one.device.plane.linked(PORTS["ios"][0])
    row = next(
        line for line in one.type("do show interfaces status") if line.startswith("Gi1/0/1 ")
    )
    assert "disabled" in row


def test_a_trunk_without_the_vlan_splits_the_rack() -> None:
    one, two = two_switches()
    for bench in (one, two):
        port = PORTS[bench.kind]
        bench.type("conf t", "vlan 10", f"int {port[0]}", "switchport access vlan 10")
        bench.type(f"int {port[1]}", "switchport access vlan 10")
        bench.type(f"int {port[8]}", "switchport mode trunk")
    assert one.network.reaches(PHONE, FAR)
    two.type("switchport trunk allowed vlan 20")
    assert not one.network.reaches(PHONE, FAR)
    assert one.network.reaches(PHONE, OTHER)


def test_a_bundle_at_one_end_only_passes_nothing() -> None:
    one, two = two_switches()
    one.type("conf t", "int gi1/0/9", "channel-group 1 mode active")
    assert not one.network.reaches(PHONE, FAR)
    two.type("conf t", "int et9", "channel-group 1 mode active")
    assert one.network.reaches(PHONE, FAR)


def test_an_expired_timer_brings_a_phone_back() -> None:
    one, _ = two_switches()
    one.type("conf t", "archive", "path flash:x", "end", "conf t revert timer 5")
    one.type("int gi1/0/1", "shutdown")
    assert not one.network.reaches(PHONE, FAR)
    one.wait(300)
    assert one.network.reaches(PHONE, FAR)


def test_a_switch_without_power_passes_nothing_until_it_has_booted() -> None:
    one, _ = two_switches()
    one.device.power_cycle("test")
    assert not one.network.reaches(PHONE, OTHER)
    one.wait(BOOT_SECONDS)
    assert one.network.reaches(PHONE, OTHER)


def test_a_switch_managed_through_its_own_ports_can_cut_itself_off() -> None:
    one, two = two_switches()
    one.network.manager = PHONE
    assert two.device.plane.manageable()
    one.type("conf t", "int gi1/0/9", "shutdown")
    assert not two.device.plane.manageable()
    assert one.device.plane.manageable()


# --- the screen -----------------------------------------------------------------------------------


def screen(bench: Bench, keys: str) -> str:
    terminal = Terminal(bench.session)
    printed = ""
    for echo in terminal.keys(keys):
        printed += echo
        if terminal.entered is not None:
            line, terminal.entered = terminal.entered, None
            printed += terminal.answer(line)
    return printed


def test_long_output_comes_in_pages() -> None:
    ios = Bench()
    assert screen(ios, "show running-config\r").endswith(" --More-- ")
    whole = screen(Bench(), "show running-config\r" + " " * 2)
    assert whole.count(" --More-- ") == 2
    assert whole.endswith("end\r\nSwitch#")
    assert " --More-- " not in screen(Bench(), "terminal length 0\rshow running-config\r")


def test_a_question_mark_helps_at_once_and_is_no_part_of_the_line() -> None:
    ios = Bench()
    ios.type("conf t", "int gi1/0/1")
    assert "<cr>" in screen(ios, "description phone 12?\r")
    assert ios.device.running.interfaces[PORTS["ios"][0]].description == "phone 12"


def test_a_switch_that_falls_behind_prints_a_command_twice() -> None:
    bench = Bench(knobs=Knobs(echo_twice=True))
    assert screen(bench, "show reload\r").count("show reload") == 2


def test_a_password_is_not_echoed() -> None:
    bench = Bench()
    bench.device.enable_password = "secret"
    bench.session = Session(bench.device, "admin")
    assert "secret" not in screen(bench, "enable\rsecret\r")


def test_ctrl_z_ends_configuration() -> None:
    ios = Bench()
    assert screen(ios, "conf t\r\x1a").endswith("^Z\r\nSwitch#")
