"""Checks of the rack file and the lock file. What makes a rack unusable, the loader refuses."""

from __future__ import annotations

from fleetctl.checks.registry import Result, check
from fleetctl.rack import Rack
from fleetctl.rack.nodesets import fold


@check(name="rack-file", scope="rack", cure="correct the lines named")
def rack_file(rack: Rack, _: Rack) -> Result:
    """Nothing in the rack file or the lock file is doubtful."""
    if rack.warnings:
        return Result("WARN", "\n".join(map(str, rack.warnings)))
    return Result("OK", "no doubtful lines")


@check(name="enrolment", scope="rack", cure="enrol the phones named")
def enrolment(rack: Rack, _: Rack) -> Result:
    """Every phone has a serial, and adb closed; with DHCP of our own also the MAC that its lease
    depends on."""
    serials = [name for name, phone in rack.phones.items() if phone.serial is None]
    if serials:
        return Result("WARN", f"not enrolled: {fold(serials)}")
    macs = [name for name, phone in rack.phones.items() if phone.mac is None]
    if macs and rack.network.dhcp == "ours":
        return Result("WARN", f"no MAC address, so no reserved address: {fold(macs)}")
    if opened := [name for name, phone in rack.phones.items() if phone.adb_open]:
        return Result(
            "WARN", f"adb is open on the network, until `fleetctl enroll --wire`: {fold(opened)}"
        )
    return Result("OK", f"{len(rack.phones)} phones enrolled")
