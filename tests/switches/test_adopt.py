"""A person adopts an adapter that the switches have found."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

from fleetctl.rack import Network, Phone, Rack
from fleetctl.rack.lock import Locked, merge, read_lock, write_lock
from fleetctl.switches.wiring import adopt

MAC = "02:00:5e:10:00:01"
RACK = Rack(
    "lab",
    Network(IPv4Network("10.1.0.0/28"), "ethernet"),
    {name: Phone(name, f"10.1.0.{place}") for place, name in enumerate(["a", "b"], 3)},
)


def test_an_adapter_that_a_switch_has_seen_is_no_proof_that_ssh_has_answered_there(
    tmp_path: Path,
) -> None:
    lock = tmp_path / "rack.lock.yml"
    write_lock(lock, "lab", {"a": Locked("R1", adb_open=True), "b": Locked("R2")})
    adopt(lock, RACK, {"a": MAC})
    phones = merge(RACK, *read_lock(lock, "lab")).phones
    assert phones["a"].mac == MAC
    assert [phones[name].waits_for_wire for name in "ab"] == [True, True]
