"""Intents to test with: one rack, as each platform sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from model_switch import ModelSwitch

from fleetctl.rack import Network, Phone, Rack, Switch
from fleetctl.rack.model import Bundle
from fleetctl.switches.intent import SwitchIntent, intend
from fleetctl.switches.plan import Change, plan_change
from fleetctl.switches.platforms import Platform, platform
from standin.switches.editor import Kind

KINDS: dict[str, Kind] = {"cisco_ios": "ios", "arista_eos": "eos"}


@dataclass
class Case:
    """One switch of one platform: what is wanted, and a model that can be told."""

    platform: Platform
    intent: SwitchIntent
    switch: ModelSwitch

    def plan(self) -> Change:
        running = self.platform.read(self.switch.running(), self.intent)
        if running.lacking:
            self.switch.type(running.lacking)
            running = self.platform.read(self.switch.running(), self.intent)
        return plan_change(self.platform, self.intent, running)

    def converge(self) -> Change:
        change = self.plan()
        self.switch.type(change.commands)
        return change


def small_rack(name: str, vlan: int = 10, snmp: str | None = None) -> Rack:
    """Four phones on ports 1 to 4, port 5 free, 6 reserved, 7-8 bundled to sw2, 9 to a router."""
    bundles = (Bundle("sw2", (7, 8)), Bundle("router", (9,)))
    switch = Switch("sw1", name, "10.0.0.2", 9, (7, 8, 9), (6,), bundles)
    phones = {
        f"phone00{port}": Phone(f"phone00{port}", f"10.0.0.1{port}", switch="sw1", port=port)
        for port in range(1, 5)
    }
    network = Network(
        IPv4Network("10.0.0.0/24"),
        "ethernet",
        controller="10.0.0.1",
        vlan=vlan,
        vlans={vlan: "phones", 20: "cameras"},
        snmp_community=snmp,
    )
    return Rack("lab", network, phones, {"sw1": switch})


def make_case(name: str, rack: Rack | None = None) -> Case:
    rack = rack or small_rack(name)
    found = platform(name)
    switch = rack.switches["sw1"]
    intent = intend(rack, switch, switch.interfaces or found.interfaces(switch.ports))
    ports = [port.interface for port in intent.ports]
    return Case(found, intent, ModelSwitch.new(KINDS[name], ports))


@pytest.fixture(params=list(KINDS))
def case(request: pytest.FixtureRequest) -> Case:
    """A factory-new switch of each platform."""
    return make_case(request.param)


@pytest.fixture
def ios() -> Case:
    return make_case("cisco_ios")


@pytest.fixture
def typed(ios: Case) -> Callable[[str], tuple[str, ...]]:
    """What is planned for an IOS switch that was right until somebody typed these lines."""

    def after(text: str) -> tuple[str, ...]:
        ios.converge()
        ios.switch.type(line.strip() for line in text.strip().splitlines())
        return ios.plan().commands

    return after


@pytest.fixture
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes labs of one factory-new switch, and takes them down."""
    from lab import one_switch

    made = []

    def make(name: str = "cisco_ios", **knobs: Any) -> Any:
        made.append(one_switch(tmp_path, name, **knobs))
        return made[-1]

    yield make
    for item in made:
        item.close()


@pytest.fixture(params=list(KINDS))
def watched(request: pytest.FixtureRequest, lab: Callable[..., Any], tmp_path: Path) -> Any:
    """A provisioned switch of each platform that the exporter may ask."""
    from watched import Watched

    return Watched(lab(request.param), tmp_path)


@pytest.fixture
def poe(lab: Callable[..., Any], tmp_path: Path) -> Any:
    """An IOS switch of that kind that feeds devices."""
    from watched import Watched

    return Watched(lab("cisco_ios", poe_watts=370.0), tmp_path)
