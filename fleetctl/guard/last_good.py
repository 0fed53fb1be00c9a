"""A copy of the rack file that guard took last, so that a mistake in it and a restart leave no rack
unwatched."""

from __future__ import annotations

from pathlib import Path

from fleetctl.errors import FleetError
from fleetctl.rack import Rack, RackPaths, load_rack
from fleetctl.rack.files import write_atomic
from fleetctl.rack.paths import phonerack_home

_NAME = "guard/rack.yml"
_HEAD = "# What guard took last of "


def keep(rack_file: Path, rack: str) -> None:
    """Keep the file of a rack, which is in order. Raises OSError."""
    text = f"{_HEAD}{rack_file.absolute()}\n".encode() + rack_file.read_bytes()
    copy = RackPaths(rack).dir / _NAME
    if not copy.exists() or copy.read_bytes() != text:
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(copy, text, mode=0o600)


def load(rack_file: Path) -> Rack | None:
    """The rack as that file last had it in order; None where no guard ever took it.

    A file with mistakes may not tell its rack's name, so the copies of all racks are looked at.
    """
    copies = [copy for copy in phonerack_home().glob(f"*/{_NAME}") if _is_of(copy, rack_file)]
    for copy in sorted(copies, key=lambda each: each.stat().st_mtime, reverse=True):
        try:
            return load_rack(rack_file, copy)
        except FleetError:
            continue
    return None


def _is_of(copy: Path, rack_file: Path) -> bool:
    try:
        with copy.open(encoding="utf-8") as file:
            return file.readline() == f"{_HEAD}{rack_file.absolute()}\n"
    except (OSError, UnicodeDecodeError):
        return False
