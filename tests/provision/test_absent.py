"""Why a phone did not answer Ansible is said in words, throttled apart from down."""

from __future__ import annotations

from ipaddress import IPv4Network

from fleetctl.provision.absent import lines
from fleetctl.rack import Network, Phone, Rack
from fleetctl.remote import Result, faults

RACK = Rack(
    "lab",
    Network(IPv4Network("10.1.0.0/24"), "ethernet"),
    {f"phone00{n}": Phone(f"phone00{n}", f"10.1.0.1{n}") for n in (1, 2, 3, 4)},
)


def test_each_reason_is_one_line_for_all_that_it_holds_for() -> None:
    gone = {
        name: Result(None, error=faults.unreachable(name, RACK.phones[name].address, "no route"))
        for name in ("phone001", "phone002")
    }
    throttled = Result(None, error=faults.throttled("phone003", "10.1.0.13"))

    said = lines(RACK, {**gone, "phone003": throttled, "phone004": Result(0)})

    assert said[0].startswith("phone[001-002]: is unreachable: no route")
    assert said[1].startswith("phone003: is throttled: its sshd says it does not allow this")
    assert "wait a minute" in said[1]
    assert said[2] == "phone004: answers now: run site.yml for it again"
