"""Find and read rack files."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fleetctl.rack.document import read_document
from fleetctl.rack.errors import RackError
from fleetctl.rack.local import address_inside
from fleetctl.rack.lock import merge, read_lock
from fleetctl.rack.model import Rack
from fleetctl.rack.paths import RackPaths

PROJECT = Path(__file__).resolve().parents[2]
"""The folder of the project: inventory/, playbooks and roles are found from here."""


def find_rack_file(option: str | os.PathLike[str] | None = None) -> Path:
    """The rack file to use: `option`, else $PHONERACK_RACK, else the operator's, else the
    stand-in's. Raises RackError if the chosen one does not exist."""
    chosen = option or os.environ.get("PHONERACK_RACK")
    if chosen:
        path = Path(chosen)
        if not path.is_file():
            origin = "--rack" if option else "PHONERACK_RACK"
            raise RackError(f"no rack file {path} (from {origin}); examples are in examples/racks/")
        return path
    own = PROJECT / "inventory/rack.yml"
    return own if own.is_file() else PROJECT / "inventory/standin.yml"


def lock_file_of(rack_file: Path, paths: RackPaths) -> Path:
    """`rack.lock.yml` beside `rack.yml` if it exists, else the one in the rack's own folder."""
    beside = rack_file.with_name(f"{rack_file.stem}.lock.yml")
    return beside if beside.is_file() else paths.lock_file


@contextmanager
def _all_in_use() -> Iterator[None]:
    """Without the search for garbage, of which reading makes none: at 5,000 phones it would take
    half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_all_in_use()
def load_rack(rack_file: str | os.PathLike[str], copy: Path | None = None) -> Rack:
    """Read a rack file and its lock file. Raises RackError with every mistake in them.

    `copy` is read instead; what the file names is looked for where `rack_file` is all the same.
    """
    from fleetctl.rack.build import Builder
    from fleetctl.rack.schema import RackFile

    path = Path(rack_file)
    document = replace(read_document(copy or path, RackError), path=path)
    builder = Builder(document, document.parse(RackFile, RackError))
    rack = builder.rack()
    if builder.mistakes:
        raise RackError(builder.mistakes)
    lock = lock_file_of(path, RackPaths(rack.name))
    if lock.is_file():
        rack = merge(rack, *read_lock(lock, rack.name))
    rack = _with_empty_places(rack, RackPaths(rack.name).known_hosts)
    return rack if rack.network.controller else _with_own_address(rack)


def _with_own_address(rack: Rack) -> Rack:
    """A rack file may leave the controller out: then it is this machine, by its own address."""
    own = address_inside(rack.network.cidr)
    return replace(rack, network=replace(rack.network, controller=own))


def _with_empty_places(rack: Rack, known_hosts: Path) -> Rack:
    """Mark the places of phones that neither the lock file nor known_hosts knows.

    A rack of which no phone is enrolled is left as it is planned.
    """
    lines = known_hosts.read_text().splitlines() if known_hosts.is_file() else []
    known = {name for line in lines for name in line.split(" ", 1)[0].split(",")}
    empty = {
        name: replace(phone, enrolled=False)
        for name, phone in rack.phones.items()
        if not (phone.serial or phone.mac or name in known)
    }
    if not empty or len(empty) == len(rack.phones):
        return rack
    return replace(rack, phones={**rack.phones, **empty})
