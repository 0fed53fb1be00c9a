"""The fault `swap-port`: two phones in each other's port, as a hand plugs them in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from fleetctl.rack import InputError
from fleetctl.rack.document import did_you_mean
from standin import engine
from standin.commands import Command, run
from standin.errors import StandinError
from standin.fabric import FabricPlan, Port
from standin.faults import exchanges, link_mbits, read_faults, write_faults
from standin.rig import Rig

_HELD = "swap{}"
"""What a plug is called while it is in a hand."""


def check_swap(rig: Rig, phones: Sequence[str], others: Sequence[str]) -> None:
    """Raises InputError unless this is one phone and one other, each in a port of its own."""
    if len(phones) != 1 or len(others) != 1:
        raise InputError("swap-port exchanges two phones: name one, and the other behind the `=`")
    (phone,), (other,) = phones, others
    if other not in rig.rack.phones:
        raise InputError(f"no phone {other} in this rack; {did_you_mean(other, rig.rack.phones)}")
    if other == phone:
        raise InputError(f"{phone} is in its own port already")
    for name in (phone, other):
        if rig.rack.phones[name].port is None:
            raise InputError(f"{name} has no port in the rack file that it could leave")
    for pair in exchanges(read_faults(rig.folders.faults)):
        if taken := {phone, other} & {*pair}:
            raise InputError(f"{' and '.join(pair)} are exchanged already: heal {min(taken)} first")


def swap(rig: Rig, phone: str, other: str) -> None:
    """Exchange two phones that run. Hold the rack around it. Raises StandinError."""
    for name in (phone, other):
        if engine.container(rig.container_name(name)).state == "dead":
            raise StandinError(f"swap-port: {name} is dead; heal it first")
    _exchange(rig, phone, other, is_swapped=True)


def swap_back(rig: Rig, phones: Sequence[str]) -> None:
    """Put those of `phones` that are exchanged, and their partners, back. Hold the rack around."""
    for one, other in exchanges(read_faults(rig.folders.faults)):
        if {one, other} & {*phones}:
            _exchange(rig, one, other, is_swapped=False)


def _exchange(rig: Rig, phone: str, other: str, is_swapped: bool) -> None:
    """Move both plugs and record it; a phone without processes has no plug to be moved."""
    before = rig.wired
    faults = read_faults(rig.folders.faults)
    for name, there in ((phone, other), (other, phone)):
        faults.setdefault(name, {}).pop("swap-port", None)
        if is_swapped:
            faults[name]["swap-port"] = there
    write_faults(rig.folders.faults, faults)
    after, ovs = rig.wired, rig.ovs
    containers = rig.containers()
    here = [name for name in (phone, other) if name in containers and containers[name].pid]
    ports = [plan.ports[name] for plan in (before, after) for name in here]
    databases = {port.name: ovs.bridges[port.bridge].database for port in ports if ovs is not None}
    held = [name for name, database in databases.items() if database.take_out(name)]
    for command in _moves(before, after, here):
        run(command)
    for name in held:
        databases[name].put_in(name)
    for name in here:
        rig.set_carrier(name)
        if rig.plan.rate:
            rig.shape(containers[name], link_mbits(faults[name]))


def _moves(before: FabricPlan, after: FabricPlan, phones: Sequence[str]) -> Iterator[Command]:
    """What takes the plugs out, all first, and puts each into its new port, down."""
    mtus = {port.name: _mtu(before, port) for port in (before.ports[name] for name in phones)}
    for place, name in enumerate(phones):
        port = before.ports[name]
        link = ("ip", "-n", before.space(port.bridge), "link", "set")
        yield (*link, port.name, "down")
        yield (*link, port.name, "name", _HELD.format(place))
    for place, name in enumerate(phones):
        port, was_at = after.ports[name], before.ports[name]
        here, there, plug = (
            before.space(was_at.bridge),
            after.space(port.bridge),
            _HELD.format(place),
        )
        if here != there:
            yield ("ip", "-n", here, "link", "set", plug, "netns", there)
        link = ("ip", "-n", there, "link", "set")
        yield (*link, plug, "name", port.name)
        # What a port lets through is the port's.
        if port.name in mtus:
            yield (*link, port.name, "mtu", str(mtus[port.name]))
        if after.kind == "bridge":
            yield (*link, port.name, "master", port.bridge)


def _mtu(plan: FabricPlan, port: Port) -> int:
    shown = run(("ip", "-n", plan.space(port.bridge), "-json", "link", "show", port.name))
    mtu: int = json.loads(shown)[0]["mtu"]
    return mtu
