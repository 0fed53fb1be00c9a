"""Another key for the operator, when a person who knew it has left.

`python -m fleetctl.provision.rotate SSH_FOLDER RACK prepare` makes the next key beside the present
one; `commit` puts it in its place and revokes the one before. Between the two, playbook rotate.yml
has the services host accept both. Phones accept the next one at once, by the authority's word.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from fleetctl.errors import FleetError
from fleetctl.provision.certificates import public_line
from fleetctl.provision.keys import Authority, tell_state
from fleetctl.provision.revocation import Revoked

NEXT = "operator.next"


@dataclass(frozen=True, slots=True)
class Rotation:
    """Public lines. `old` is the key that goes, or went last; None if none ever did."""

    old: str | None
    new: str


def prepare(folder: Path, rack: str) -> Rotation:
    """Make the next key; one that an earlier try has made stays."""
    authority = Authority(folder, rack)
    old = authority.certify_operator()
    new = authority.key_pair(NEXT, f"operator@{rack}").public_key()
    return Rotation(old, public_line(new))


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
    (folder / f"{NEXT}.pub").unlink(missing_ok=True)
    (folder / NEXT).replace(folder / "operator")
    return Rotation(present, Authority(folder, rack).certify_operator())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m fleetctl.provision.rotate")
    parser.add_argument("folder", type=Path, help="the rack's ssh folder")
    parser.add_argument("rack", help="the rack's name")
    parser.add_argument("step", choices=["prepare", "commit"])
    options = parser.parse_args(arguments)
    try:
        step = prepare if options.step == "prepare" else commit
        rotation = step(options.folder, options.rack)
        if options.step == "commit":
            tell_state(options.folder.parent / "state.db", options.folder)
    except (ValueError, FleetError) as problem:
        sys.exit(f"{options.folder}: {problem}")
    print(json.dumps(asdict(rotation)))


if __name__ == "__main__":
    main()
