"""`fleetctl power --port`: phones that answer as long as their cable lets them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lab import PASSWORD

from fleetctl.state import State
from standin.switches.plane import End

type Make = Callable[..., Any]

FLEETCTL = Path(sys.executable).with_name("fleetctl")
RACK = """\
rack: lab
network: {cidr: 127.0.0.0/8, medium: ethernet, controller: 127.0.0.9, vlan: 10}
switches:
  sw1: {platform: PLATFORM, address: 127.0.0.1, ports: 9, uplinks: {router: 9}, reserved: 6}
phones:
  - {names: "phone[001-002]", switch: sw1, ports: 1-2, addresses: NET.1-2}
  - {names: phone003, addresses: NET.3}
"""
NET = f"127.8.{os.getpid() % 250}"
"""Tests may run side by side."""

WATTS = 12.5


class Phones:
    """They can be knocked at while their port has a carrier; stubborn ones always."""

    def __init__(self, rig: Any) -> None:
        self.rig = rig
        self.stubborn: set[int] = set()
        self._open: dict[int, socket.socket] = {}
        self._stop = threading.Event()
        self._look()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            self._look()

    def _look(self) -> None:
        plane = self.rig.devices["sw1"].plane
        for number in (1, 2):
            interface = self.rig.job("sw1").intent.ports[number - 1].interface
            alive = number in self.stubborn or plane.linked(interface)
            if alive and number not in self._open:
                address = (f"{NET}.{number}", 8022)
                self._open[number] = socket.create_server(address)
                self._open[number].setblocking(False)
            elif not alive and number in self._open:
                self._open.pop(number).close()
        for server in self._open.values():
            with suppress(BlockingIOError):
                visitor, _ = server.accept()
                with visitor, suppress(OSError):
                    visitor.sendall(b"SSH-2.0-OpenSSH_10.0\r\n")

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for server in self._open.values():
            server.close()


class Desk:
    def __init__(self, rig: Any, folder: Path) -> None:
        self.rig = rig
        platform = rig.rack.switches["sw1"].platform
        file = folder / "rack.yml"
        file.write_text(RACK.replace("PLATFORM", platform).replace("NET", NET))
        (folder / "rack.lock.yml").write_text(
            "rack: lab\nversion: 1\nphones:\n"
            + "".join(f"  phone00{n}: {{mac: '02:00:5e:10:00:0{n}'}}\n" for n in (1, 2, 3))
        )
        home = rig.make_home(folder)
        self.home = folder / "home/lab"
        self.env = os.environ | {
            "PHONERACK_HOME": str(home),
            "PHONERACK_RACK": str(file),
            "SWITCH_PASSWORD": PASSWORD,
            "COLUMNS": "160",
        }
        rig.settle()
        hosts = rig.network.hosts
        for name in ("phone003", "phone004"):
            del hosts[name]
        self.phones = Phones(rig)

    def interface(self, port: int) -> str:
        name: str = self.rig.job("sw1").intent.ports[port - 1].interface
        return name

    def power(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.fleetctl("power", "--ssh-port", self._port, *words, code=code)

    @property
    def _port(self) -> str:
        return str(self.rig.targets["sw1"].port)

    def fleetctl(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [FLEETCTL, *words], env=self.env, text=True, capture_output=True, timeout=300
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert PASSWORD not in done.stdout + done.stderr
        return done

    def candidate(self) -> list[str]:
        """What `provision switches` would send to the ports of the phones."""
        done = self.fleetctl("provision", "switches", "--port", self._port, "-C", "-o", "json")
        commands: list[str] = json.loads(done.stdout)["switches"]["sw1"]["commands"]
        place, found = "", []
        for command in commands:
            place = command if command.startswith("interface ") else place
            if place.removeprefix("interface ") in (self.interface(1), self.interface(2)):
                found.append(command)
        return found

    def state(self) -> State:
        return State(self.home / "state.db")


@pytest.fixture
def desk(lab: Make, tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def make(platform: str = "cisco_ios", **knobs: Any) -> Desk:
        made.append(Desk(lab(platform, **knobs), tmp_path))
        return made[-1]

    yield make
    for here in made:
        here.phones.close()


@pytest.mark.parametrize(
    "platform", ["cisco_ios", pytest.param("arista_eos", marks=pytest.mark.soak)]
)
def test_a_port_is_shut_and_given_back(desk: Callable[..., Desk], platform: str) -> None:
    here = desk(platform)
    shown = json.loads(here.power("phone001", "-o", "json").stdout)["ports"]["phone001"]
    assert (shown["enabled"], shown["linked"], shown["answers"]) == (True, True, True)
    assert (shown["speed_mbits"], shown["full_duplex"]) == (1000, True)

    off = json.loads(here.power("phone001", "--port", "off", "-o", "json").stdout)
    assert off["ports"]["phone001"]["enabled"] is False
    assert off["ports"]["phone001"]["answers"] is False
    assert here.rig.settings().interfaces[here.interface(1)].shutdown
    assert here.rig.settings().interfaces[here.interface(1)].description == "phone001-off"
    assert not here.rig.settings().interfaces[here.interface(2)].shutdown
    assert here.rig.startup() == here.rig.settings()
    with here.state() as state:
        (drain,) = state.phones()["phone001"].drains
    assert drain.who == "port-off"
    assert here.candidate() == [], "provisioning leaves the port as it is"
    here.power("phone001", "--port", "off")

    on = json.loads(here.power("phone001", "--port", "on", "-o", "json").stdout)
    assert on["ports"]["phone001"]["answers"] is True
    assert not here.rig.settings().interfaces[here.interface(1)].shutdown
    with here.state() as state:
        assert not state.phones().get("phone001") or not state.phones()["phone001"].drains
    assert here.candidate() == []


def test_a_port_that_feeds_the_phone_stops_feeding_it(desk: Callable[..., Desk]) -> None:
    here = desk(poe_watts=370.0)
    here.rig.look(lambda device: device.loads.update({here.interface(1): WATTS}))
    assert "12.5 W" in here.power("phone001").stdout
    here.power("phone001", "--port", "off")
    port = here.rig.settings().interfaces[here.interface(1)]
    assert port.other == ("power inline never",)
    assert not port.shutdown
    assert here.candidate() == []
    here.power("phone001", "--port", "on")
    assert here.rig.settings().interfaces[here.interface(1)].other == ()
    assert here.candidate() == []


@pytest.mark.soak
def test_eos_may_feed_a_phone_whatever_it_tells_so_the_port_is_cut_off_either_way(
    desk: Callable[..., Desk],
) -> None:
    here = desk("arista_eos", poe_watts=370.0)
    here.rig.look(lambda device: device.loads.update({here.interface(1): WATTS}))
    shown = json.loads(here.power("phone[001-002]", "-o", "json").stdout)["ports"]
    assert (shown["phone001"]["can_feed"], shown["phone001"]["fed_watts"]) == (True, None)
    assert shown["phone001"]["poe_enabled"]
    done = here.power("phone[001-002]", "--port", "off")
    assert "cuts off the power of phone001, phone002" in done.stderr
    assert " off " in done.stdout
    for number in (1, 2):  # the second phone is fed by something else
        port = here.rig.settings().interfaces[here.interface(number)]
        assert port.other == ("poe disabled",)
        assert port.shutdown
        assert port.description == f"phone00{number}-off"
    assert here.rig.look(lambda device: device.fed_watts(here.interface(1))) == 0
    assert here.candidate() == []
    here.power("phone[001-002]", "--port", "on")
    port = here.rig.settings().interfaces[here.interface(1)]
    assert (port.other, port.shutdown, port.description) == ((), False, "phone001")
    assert here.candidate() == []


def test_a_port_that_somebody_keeps_from_feeding_is_mended_by_provisioning(
    desk: Callable[..., Desk],
) -> None:
    here = desk("arista_eos", poe_watts=370.0)
    here.rig.type(f"interface {here.interface(1)}\npoe disabled")
    assert here.candidate() == [f"interface {here.interface(1)}", "no poe disabled"]


@pytest.mark.soak
def test_cycle_leaves_it_on_and_undrained(desk: Callable[..., Desk]) -> None:
    here = desk("arista_eos")
    done = here.power("phone[001-002]", "--port", "cycle")
    assert "cuts off the carrier of phone001, phone002" in done.stderr
    assert "gives the carrier back to phone001, phone002" in done.stderr
    assert here.candidate() == []


@pytest.mark.soak
def test_a_drain_of_a_person_stays(desk: Callable[..., Desk]) -> None:
    here = desk("arista_eos")
    here.fleetctl("drain", "phone001", "--why", "new battery")
    here.power("phone001", "--port", "cycle")
    with here.state() as state:
        (drain,) = state.phones()["phone001"].drains
    assert drain.why == "new battery"


def test_a_phone_that_a_job_has_is_refused(desk: Callable[..., Desk]) -> None:
    here = desk()
    here.power("phone001")
    with here.state() as state:
        state.allocate("run-1", ["phone001"])
    done = here.power("phone001", "--port", "off", code=5)
    assert "phone001 by run run-1" in done.stderr
    assert not here.rig.settings().interfaces[here.interface(1)].shutdown
    with here.state() as state:
        assert state.phones()["phone001"].drains == ()


def test_a_phone_that_still_answers_is_not_off(desk: Callable[..., Desk]) -> None:
    here = desk()
    here.phones.stubborn.add(1)
    done = here.power("phone001", "--port", "off", code=1)
    assert "phone001: the switch says that the port is off, and the phone still answers" in (
        done.stderr
    )
    with here.state() as state:
        assert state.phones()["phone001"].drains, "nobody may use it until that is known"


@pytest.mark.parametrize("platform", ["cisco_ios", "arista_eos"])
def test_a_switch_that_does_not_do_it_is_named_and_nothing_stays(
    desk: Callable[..., Desk], platform: str
) -> None:
    here = desk(platform, reject="^shutdown")
    before = here.rig.settings()
    done = here.power("phone[001-002]", "--port", "off", code=1)
    assert "sw1: it rejected `shutdown`" in done.stderr
    assert "its ports are as they were" in done.stderr
    assert here.rig.settings() == before == here.rig.startup()
    with here.state() as state:
        drained = [name for name, facts in state.phones().items() if facts.drains]
    assert drained == [], "their ports are on, and stay on"
    assert here.candidate() == []


def test_a_switch_that_cannot_say_how_its_ports_are_is_to_be_looked_at(
    desk: Callable[..., Desk],
) -> None:
    here = desk()
    before = here.rig.startup()
    reject = "^shutdown|description phone001$"
    here.rig.look(lambda device: setattr(device.knobs, "reject", reject))
    done = here.power("phone001", "--port", "off", code=1)
    assert "whether its ports are as they were could not be seen" in done.stderr
    assert here.rig.startup() == before
    with here.state() as state:
        assert state.phones()["phone001"].drains, "nobody may use it until that is known"


def test_a_session_that_breaks_before_anything_is_typed_drains_nobody(
    desk: Callable[..., Desk],
) -> None:
    here = desk(fault="drop", fault_at="^show running-config")
    here.power("phone001", "--port", "off", code=1)
    with here.state() as state:
        assert state.groups()["drained"] == []


def test_a_session_that_breaks_at_a_port_is_taken_up_again_to_undo_it(
    desk: Callable[..., Desk],
) -> None:
    here = desk(fault="drop", fault_at="^shutdown")
    before = here.rig.settings()
    assert "its ports are as they were" in here.power("phone001", "--port", "off", code=1).stderr
    assert here.rig.settings() == before == here.rig.startup()


def test_cycle_says_that_the_switch_failed_and_gives_ports_back(
    desk: Callable[..., Desk],
) -> None:
    here = desk(reject="^shutdown")
    before = here.rig.settings()
    done = here.power("phone001", "--port", "cycle", code=1)
    assert "sw1: it rejected `shutdown`" in done.stderr
    assert "their ports are on again" in done.stderr
    assert "Traceback" not in done.stderr
    assert here.rig.settings() == before == here.rig.startup()


def test_phones_without_a_port_are_refused_before_anybody_logs_in(
    desk: Callable[..., Desk],
) -> None:
    here = desk()
    done = here.power("phone003", "--port", "off", code=1)
    assert "phone003: the rack file gives it no port" in done.stderr
    assert here.rig.look(lambda device: device.lines_entered) == 0
    assert End("sw1", here.interface(1)) in here.rig.network.hosts.values()
