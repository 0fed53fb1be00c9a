"""Every query of the dashboards on a live rack with switches of its own that are watched, while it
trains and things go wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from dashboard_queries import ANNOTATIONS, PANELS, Asked, has_values, is_denied
from live import Series, eventually, query
from netmiko import ConnectHandler
from which_rack import NAME as SHARED
from which_rack import SUBNET as SHARED_SUBNET

pytestmark = [pytest.mark.standin, pytest.mark.soak]

PROJECT = Path(__file__).resolve().parents[2]
NAME = f"{SHARED}-watched"
_HEAD, _THIRD = SHARED_SUBNET.rsplit(".", 1)
SUBNET = f"{_HEAD}.{int(_THIRD) + 60}"
SECRETS = {"SWITCH_PASSWORD": "standin", "SNMP_COMMUNITY": "Readers0nly"}
SLOW, HOT, FLAPPING, UNWELL = "phone001", "phone002", "phone004", "phone006"
VARIABLES = {"$__rate_interval": "70s", "$rack": NAME} | dict.fromkeys(
    ("$phone", "$run", "$switch"), ".+"
)
"""Switches are read every 30 s."""

GUARDED = "phonerack_fleet_guard_"
NO_FRAMES_LOST = re.compile(r"^rate\(\w+_(?:errors|discards)_total\{.*> 0$")
"""The stand-in's links lose no frames in the switches."""


@dataclass(frozen=True)
class Watched:
    """The shipped stand-in rack behind an IOS and an EOS switch."""

    home: Path

    @property
    def file(self) -> Path:
        return self.home / "rack-file.yml"

    def write(self) -> None:
        shipped = (PROJECT / "inventory/standin.yml").read_text()
        rack = yaml.safe_load(shipped.replace("10.138.0.", f"{SUBNET}."))
        rack["rack"] = NAME
        rack["network"] |= {"vlan": 10, "snmp": {"community": "snmp_community"}}
        for number, (name, other) in enumerate((("sw1", "sw2"), ("sw2", "sw1"))):
            rack["switches"][name] = {
                "platform": ("cisco_ios", "arista_eos")[number],
                "address": f"{SUBNET}.{number + 3}",
                "ports": 12,
                "uplinks": {other: "9-10"},
            }
        self.file.write_text(yaml.safe_dump(rack))

    def environment(self) -> dict[str, str]:
        kept = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PHONERACK_HOME": str(self.home),
            "PHONERACK_RACK": str(self.file),
            "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
        }
        return {**os.environ, **kept, **SECRETS}

    def run(self, *command: str, codes: tuple[int, ...] = (0,)) -> None:
        done = subprocess.run(
            command, cwd=PROJECT, env=self.environment(), text=True, capture_output=True
        )
        assert done.returncode in codes, f"{command}\n{done.stdout}\n{done.stderr}"

    def fleetctl(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> None:
        self.run("fleetctl", *arguments, codes=codes)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.home / f"{arguments[0]}.log").open("w") as log:
            return subprocess.Popen(
                ["fleetctl", *arguments],
                cwd=PROJECT,
                env=self.environment(),
                stdout=log,
                stderr=log,
            )

    def change_a_port_by_hand(self) -> None:
        connection = ConnectHandler(
            device_type="arista_eos",
            host=f"{SUBNET}.4",
            username="admin",
            password=SECRETS["SWITCH_PASSWORD"],
            conn_timeout=30,
        )
        connection.send_config_set(["interface Ethernet2", "description mine"])
        connection.disconnect()


def ask(expression: str) -> Series:
    return query(expression, f"{SUBNET}.2")


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Provisioned as a whole, training for long, served; and then its troubles begin."""
    rack = Watched(tmp_path_factory.mktemp("watched"))
    rack.write()
    with ExitStack() as stack:
        stack.callback(rack.fleetctl, "standin", "down")
        rack.fleetctl("standin", "up")
        rack.run("ansible-playbook", "-i", str(rack.file), "site.yml")
        rack.fleetctl("data", "add", "digits")
        job = rack.home / "long.yml"
        short = (PROJECT / "examples/jobs/digits.yml").read_text()
        job.write_text(short.replace("epochs: 30", "epochs: 5000"))
        for command in (["launch", str(job)], ["serve"]):
            process = rack.start(*command)
            stack.callback(process.wait, 120)
            stack.callback(process.send_signal, signal.SIGINT)
            eventually(lambda: bool(ask("phonerack_training_info")), "the run is seen")
        eventually(lambda: bool(ask("phonerack_fleet_phones")), "serve is seen")
        trouble(rack)
        yield rack


def trouble(rack: Watched) -> None:
    rack.fleetctl("standin", "switch", "sw1", "sw2", "poe=370")
    rack.fleetctl("standin", "fault", SLOW, "slow=0.5", "100mbit")
    rack.fleetctl("standin", "fault", HOT, "hot")
    rack.fleetctl("standin", "fault", FLAPPING, "flap=20s")
    rack.fleetctl("standin", "hardware", UNWELL, "health=failure")
    rack.fleetctl("standin", "hub", "off", "phone005")
    rack.change_a_port_by_hand()
    rack.fleetctl("check", "cables", codes=(0, 1, 3))
    rack.fleetctl("drain", UNWELL, "--why", "dashboards are tried")


def test_every_panel_and_annotation_shows_something_in_its_range(rack: Watched) -> None:
    """But for guard's: it begins at the end, since it acts on what it sees."""
    missing = [
        asked
        for asked in [*PANELS, *ANNOTATIONS]
        if not NO_FRAMES_LOST.match(asked.expression) and GUARDED not in asked.expression
    ]

    def look() -> bool:
        for asked in list(missing):
            if has_values(asked, ask(filled(asked))):
                missing.remove(asked)
        return all(is_denied(asked, ask) for asked in missing)

    try:
        eventually(look, "values for all")
    finally:
        print("missing:", *(f"{each.name()}: {filled(each)}" for each in missing), sep="\n")


def filled(asked: Asked) -> str:
    """The dashboard of one phone is that of the slow one."""
    own = {"$phone": SLOW} if asked.dashboard == "phone" else {}
    return asked.filled(VARIABLES | own)


def shown(dashboard: str, title: str, **labels: Any) -> list[float]:
    """What a panel shows of the series with these labels."""
    found = [
        (of, value)
        for asked in PANELS
        if (asked.dashboard, asked.title) == (dashboard, title)
        for of, value in ask(filled(asked))
    ]
    return [value for of, value in found if labels.items() <= of.items()]


def see(dashboard: str, title: str, least: float, most: float = 1e9, **labels: Any) -> None:
    """Wait until all that a panel shows with these labels is between these two."""

    def look() -> bool:
        values = shown(dashboard, title, **labels)
        return bool(values) and all(least <= value <= most for value in values)

    eventually(look, f"{title} between {least} and {most} for {labels}")


def test_panels_show_the_troubles_that_there_are(rack: Watched) -> None:
    see("training", "Against the fastest", 1.3, phone=SLOW)
    see("rack", "Time throttled", 0.5, phone=HOT)
    see("rack", "Firing", 1, alertname="PhoneLinkSlow", phone=SLOW, switch="sw1", port="1")
    see("phone", "Carrier and speed", 12.5e6, 12.5e6, switch="sw1")
    see("network", "Ports out of order", 1, phone=SLOW, why="slow")
    see("network", "Flaps", 1, phone=FLAPPING)
    see("network", "What differs from the rack file", 1, switch="sw2", setting="description")
    see("power", "Not good", 1, phone=UNWELL, health="unspecified_failure")
    see("power", "Unwell", 1, 1)
    see("rack", "State by place", 3, 4, switch="sw2", port="3")


def test_panels_show_guard_and_whom_it_calls_for(rack: Watched) -> None:
    guard = rack.start("guard")
    try:
        see("power", "Last decision", 0, 60)
        see("power", "Latched", 1)
        see("power", "Calls", 1)
    finally:
        guard.send_signal(signal.SIGINT)
        guard.wait(120)
