"""Another key for the operator, when a person who knew it has left.

`python -m fleetctl.provision.rotate SSH_FOLDER RACK prepare` makes the next key beside the present
one; `prove FILE` logs in to the phones of that rack file with it; `commit` puts it in its place and
revokes the one before. Between the first and the last, playbook rotate.yml has the services host
accept both. Phones accept the next one at once, by the authority's word.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from fleetctl.errors import FleetError
from fleetctl.provision.keys import Authority, tell_state
from fleetctl.provision.revocation import Revoked
from fleetctl.rack import Phone, load_rack
from fleetctl.rack.model import PHONE_PORT
from fleetctl.remote.connect import Identity
from fleetctl.remote.faults import Fault, PhoneError
from fleetctl.remote.hostkey import log_in

NEXT = "operator.next"
NEXT_CERTIFICATE = "operator.next-cert.pub"
CONCURRENT = 32
NOT_ASKED = (Fault.UNREACHABLE, Fault.REFUSED, Fault.TIMEOUT, Fault.LOST, Fault.THROTTLED)
"""What says nothing of whether a phone would accept a key."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """Public lines. `old` is the key that goes, or went last; None if none ever did."""

    old: str | None
    new: str


def prepare(folder: Path, rack: str) -> Rotation:
    """Make the next key; one that an earlier try has made stays."""
    authority = Authority(folder, rack)
    old = authority.certify_operator()
    return Rotation(old, authority.certify_operator(NEXT))


class Refused(FleetError):
    """Phones that would not let the operator in any more."""


async def prove(folder: Path, phones: Iterable[Phone], port: int = PHONE_PORT) -> list[str]:
    """Log in with the next key. Returns what kept phones from answering.

    Raises Refused for those that answer and do not accept it, or whose own certificate is by
    another authority: they do not know the present one.
    """
    identity = Identity(folder / "known_hosts", folder / NEXT, folder / NEXT_CERTIFICATE)
    bound = asyncio.Semaphore(CONCURRENT)

    async def one(phone: Phone) -> PhoneError | None:
        async with bound:
            try:
                await log_in(phone.name, str(phone.address), identity, port)
            except PhoneError as problem:
                return problem
        return None

    found = [each for each in await asyncio.gather(*(one(phone) for phone in phones)) if each]
    if refusing := [each.phone for each in found if each.fault not in NOT_ASKED]:
        raise Refused(
            f"{', '.join(refusing)} would not accept the next key of the operator, since they do "
            "not know the present authority: run `site.yml -t controller,ssh` first. Nothing was "
            "changed"
        )
    return [str(each) for each in found]


def commit(folder: Path, rack: str) -> Rotation:
    """Put the next key into its place, and revoke the one before.

    A try that was cut off is completed by the next; without a next key nothing changes.
    """
    authority = Authority(folder, rack)
    present = authority.certify_operator()
    if not (folder / NEXT).exists():
        gone = [entry.key for entry in authority.revoked if entry.kind == "operator"]
        return Rotation(gone[-1] if gone else None, present)
    authority.revoke([Revoked(present, "operator", rack)])
    # The private half last of all: where it has moved, all else follows from it.
    for name in (f"{NEXT}.pub", NEXT_CERTIFICATE):
        (folder / name).unlink(missing_ok=True)
    (folder / NEXT).replace(folder / "operator")
    return Rotation(present, Authority(folder, rack).certify_operator())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m fleetctl.provision.rotate")
    parser.add_argument("folder", type=Path, help="the rack's ssh folder")
    parser.add_argument("rack", help="the rack's name")
    parser.add_argument("step", choices=["prepare", "prove", "commit"])
    parser.add_argument("--rack-file", type=Path, help="for prove: whose phones are asked")
    options = parser.parse_args(arguments)
    try:
        if options.step == "prove":
            rack = load_rack(options.rack_file)
            phones = [phone for phone in rack.phones.values() if phone.enrolled]
            print(json.dumps({"unproven": asyncio.run(prove(options.folder, phones))}))
            return
        step = prepare if options.step == "prepare" else commit
        rotation = step(options.folder, options.rack)
        if options.step == "commit":
            tell_state(options.folder.parent / "state.db", options.folder)
    except (ValueError, FleetError) as problem:
        sys.exit(f"{options.folder}: {problem}")
    print(json.dumps(asdict(rotation)))


if __name__ == "__main__":
    main()
