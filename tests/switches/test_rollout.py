"""Several switches at once: each by itself, uplinks together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from lab import PATIENCE, Lab

from fleetctl.rack import Network, Phone, Rack, Switch
from fleetctl.rack.model import Bundle
from fleetctl.switches.errors import SwitchError
from fleetctl.switches.job import Report
from fleetctl.switches.rollout import hops_from_the_controller
from standin.switches.plane import End
from standin.switches.state import PortEffect


def a_chain() -> Rack:
    """sw1 and sw2 of IOS, sw3 of EOS, each bundled to the next; two phones on each."""
    bundles = {
        "sw1": (Bundle("sw2", (5, 6)),),
        "sw2": (Bundle("sw1", (5, 6)), Bundle("sw3", (7, 8))),
        "sw3": (Bundle("sw2", (5, 6)),),
    }
    kinds = {"sw1": "cisco_ios", "sw2": "cisco_ios", "sw3": "arista_eos"}
    switches = {
        name: Switch(
            *(name, kind, f"10.0.0.{number}", 8),  # type: ignore[arg-type]
            tuple(port for bundle in bundles[name] for port in bundle.ports),
            bundles=bundles[name],
        )
        for number, (name, kind) in enumerate(kinds.items(), 2)
    }
    phones = {
        f"phone00{number}": Phone(
            *(f"phone00{number}", f"10.0.0.1{number}"),
            switch=f"sw{1 + (number - 1) // 2}",
            port=1 + (number - 1) % 2,
        )
        for number in range(1, 7)
    }
    network = Network(IPv4Network("10.0.0.0/24"), "ethernet", vlan=10, vlans={10: "phones"})
    return Rack("lab", network, phones, switches)


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(a_chain(), tmp_path)
    for name in lab.rack.switches:
        lab.add(name)
    ends = {
        name: [port.interface for port in lab.job(name).intent.ports] for name in lab.rack.switches
    }
    # One cable of each bundle will do; a new network would have a loop with both.
    lab.network.cables += [
        (End("sw1", ends["sw1"][4]), End("sw2", ends["sw2"][4])),
        (End("sw2", ends["sw2"][6]), End("sw3", ends["sw3"][4])),
    ]
    yield lab
    lab.close()


def whole(lab: Lab) -> bool:
    """Whether every phone reaches every other."""
    hosts = list(lab.rack.phones)
    return all(lab.network.reaches(one, other) for one in hosts for other in hosts)


def test_three_new_switches_become_one_network_at_once(chain: Lab) -> None:
    assert whole(chain)
    answers = chain.run()
    assert [isinstance(answer, Report) and answer.result for answer in answers] == ["changed"] * 3
    assert whole(chain)
    assert all(chain.settings(name) == chain.startup(name) for name in chain.devices)
    again = chain.run()
    assert [isinstance(answer, Report) and answer.result for answer in again] == ["unchanged"] * 3


def test_uplinks_are_kept_together_or_not_at_all(chain: Lab) -> None:
    before = {name: chain.settings(name) for name in chain.devices}
    chain.look(lambda device: setattr(device.knobs, "reject", "channel-group"), "sw3")
    answers = chain.run()
    assert all(isinstance(answer, SwitchError) for answer in answers), answers
    assert "it rejected `channel-group 1 mode active`" in str(answers[2])
    for answer in answers[:2]:
        assert "failed" in str(answer)
        assert "the old configuration is back" in str(answer)
    assert whole(chain)
    for name, old in before.items():
        now = chain.settings(name)
        now.vtp, now.archive_path = old.vtp, old.archive_path
        assert now == old


def test_what_concerns_no_uplink_does_not_wait_for_others(chain: Lab) -> None:
    for name in chain.devices:
        chain.settle(name)
    chain.type("interface gi1/0/1\nno description", "sw1")
    chain.targets["sw3"] = replace(chain.targets["sw3"], port=1)
    one, two, three = chain.run()
    assert isinstance(one, Report)
    assert one.result == "changed"
    assert isinstance(two, Report)
    assert two.result == "unchanged"
    assert isinstance(three, SwitchError)


@pytest.mark.parametrize("named", [["sw2"], ["sw1", "sw2", "sw3"]], ids=["alone", "unchanged"])
def test_a_port_that_leads_to_a_switch_that_does_not_change_is_not_shut(
    chain: Lab, named: list[str]
) -> None:
    """The rack file forgot the uplink: its ports are unused, and sw3's phones would be gone."""
    for name in chain.devices:
        chain.settle(name)
    assert chain.reachable() == set(chain.rack.phones)
    old = chain.settings("sw2")
    forget_uplink(chain, "sw2", "sw3")
    answers = dict(zip(named, chain.run(*named), strict=True))
    told = answers.pop("sw2")
    assert isinstance(told, SwitchError), told
    assert "no longer reachable after the change: phone005, phone006" in str(told)
    assert "phone005 is plugged in elsewhere" in str(told)
    assert "the old configuration is back" in str(told)
    assert all(isinstance(answer, Report) for answer in answers.values())
    assert chain.settings("sw2") == old == chain.startup("sw2")
    assert chain.reachable() == set(chain.rack.phones)


def test_phones_behind_an_unmanaged_switch_count_as_well(chain: Lab) -> None:
    ports = [port.interface for port in chain.job("sw3").intent.ports]
    simple = replace(chain.rack.switches["sw3"], platform="unmanaged", address=None)
    chain.rack = replace(chain.rack, switches={**chain.rack.switches, "sw3": simple})
    del chain.devices["sw3"]
    chain.network.plane("sw3").apply(
        {port: PortEffect(up=True, untagged=1, tagged=frozenset()) for port in ports}
    )
    for name in chain.devices:
        chain.settle(name)
    assert chain.reachable() == set(chain.rack.phones)
    old = chain.settings("sw2")
    forget_uplink(chain, "sw2", "sw3")
    _, told = chain.run()
    assert "no longer reachable after the change: phone005, phone006" in str(told)
    assert chain.settings("sw2") == old
    assert chain.reachable() == set(chain.rack.phones)


def test_a_vlan_that_other_switches_still_need_is_not_taken_from_an_uplink(chain: Lab) -> None:
    for name in chain.devices:
        chain.settle(name)
    old = chain.settings("sw2")
    network = replace(chain.rack.network, vlan=30, vlans={30: "moved"})
    chain.rack = replace(chain.rack, network=network)
    (told,) = chain.run("sw2")
    # sw2's own phones are in another VLAN than everybody else then.
    assert "no longer reachable after the change: phone003, phone004, phone005" in str(told)
    assert chain.settings("sw2") == old
    assert chain.reachable() == set(chain.rack.phones)


def test_a_change_at_ports_of_phones_answers_for_these_phones_only(chain: Lab) -> None:
    for name in chain.devices:
        chain.settle(name)
    chain.type("interface gi1/0/1\nno description", "sw2")
    answering = iter([set(chain.rack.phones)])
    (told,) = chain.run(
        "sw2", reachable=lambda: next(answering, set(chain.rack.phones) - {"phone006"})
    )
    assert isinstance(told, Report), told


def forget_uplink(lab: Lab, name: str, to: str) -> None:
    """Let the rack file say that nothing is plugged in where an uplink is."""
    switch = lab.rack.switches[name]
    bundles = tuple(bundle for bundle in switch.bundles if bundle.to != to)
    uplinks = tuple(port for bundle in bundles for port in bundle.ports)
    changed = replace(switch, bundles=bundles, uplinks=uplinks)
    lab.rack = replace(lab.rack, switches={**lab.rack.switches, name: changed})


def test_an_uplink_does_not_change_while_its_neighbour_cannot_be_asked(chain: Lab) -> None:
    chain.targets["sw3"] = replace(chain.targets["sw3"], port=1)
    answers = chain.run()
    assert "no connection" in str(answers[2])
    assert "its uplinks stay as they were" in str(answers[1])
    assert all(isinstance(answer, SwitchError) for answer in answers)
    assert whole(chain)


def test_switches_that_are_managed_through_their_own_uplinks_are_not_lost(chain: Lab) -> None:
    chain.network.manager = "phone001"
    chain.network.management_vlan = 10
    for name in chain.devices:
        chain.type("vlan 10\ninterface " + chain.job(name).intent.ports[0].interface, name)
        for port in chain.job(name).intent.ports:
            chain.type(f"interface {port.interface}\nswitchport access vlan 10", name)
    assert all(chain.network.manageable(name) for name in chain.devices)
    answers = chain.run(patience=replace(PATIENCE, settle_seconds=10.0))
    assert [getattr(answer, "result", answer) for answer in answers] == ["changed"] * 3
    assert whole(chain)
    assert all(chain.network.manageable(name) for name in chain.devices)


def test_the_controller_is_behind_the_router_or_at_the_first_switch() -> None:
    names = ["sw1", "sw2", "sw3"]
    chain = {"sw1": ["sw2"], "sw2": ["sw1", "sw3"], "sw3": ["sw2"]}
    assert hops_from_the_controller(names, chain) == {"sw1": 0, "sw2": 1, "sw3": 2}
    routed = {**chain, "sw3": ["sw2", "router"]}
    assert hops_from_the_controller(names, routed) == {"sw3": 0, "sw2": 1, "sw1": 2}
    assert hops_from_the_controller(names, {}) == {"sw1": 0, "sw2": 0, "sw3": 0}
