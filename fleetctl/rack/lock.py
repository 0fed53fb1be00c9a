"""The lock file: what enrolment learnt about each phone. Programs write it, people do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fleetctl.rack.document import Document, read_document
from fleetctl.rack.errors import Mistake, RackError
from fleetctl.rack.files import write_atomic
from fleetctl.rack.model import Phone, Rack


@dataclass(frozen=True, slots=True)
class Locked:
    """One phone's entry. The serial is its identity; the MAC is its adapter's; `adb_open`: adb was
    opened on the network at enrolment, and nobody has closed it since."""

    serial: str | None = None
    mac: str | None = None
    address: str | None = None
    api_level: int | None = None
    adb_open: bool = False


def read_lock(path: Path, rack: str) -> tuple[Document, dict[str, Locked]]:
    """Entries by phone name. Raises RackError: unreadable, another rack's, doubled identities."""
    from fleetctl.rack.schema import LockFile

    document = read_document(path, RackError)
    file = document.parse(LockFile, RackError)
    if file.rack != rack:
        what = f"the lock file is of rack `{file.rack}`, not `{rack}`"
        raise RackError([document.mistake(("rack",), what, "put the right one beside the rack")])
    entries = {
        name: Locked(
            serial=item.serial,
            mac=item.mac,
            address=str(item.address) if item.address else None,
            api_level=item.api_level,
            adb_open=item.adb_open,
        )
        for name, item in file.phones.items()
    }
    mistakes = [
        mistake
        for kind in ("serial", "mac", "address")
        for mistake in _doubled(document, entries, kind)
    ]
    if mistakes:
        raise RackError(mistakes)
    return document, entries


def _doubled(document: Document, entries: Mapping[str, Locked], kind: str) -> list[Mistake]:
    owners: dict[str, str] = {}
    mistakes = []
    for name, entry in entries.items():
        value = getattr(entry, kind)
        if value in owners:
            mistakes.append(
                document.mistake(
                    ("phones", name, kind),
                    f"{kind} {value} of {name} is {owners[value]}'s too",
                    "give one phone another adapter" if kind == "mac" else "enrol one of both anew",
                )
            )
        elif value:
            owners[value] = name
    return mistakes


def merge(rack: Rack, document: Document, entries: Mapping[str, Locked]) -> Rack:
    """The rack with what enrolment knows.

    With `dhcp: theirs` the recorded address counts, else the rack file's, which our own DHCP
    server hands out. Entries of phones that have left the rack are a warning.
    """
    phones = dict(rack.phones)
    warnings = list(rack.warnings)
    left = dict(rack.left)
    for name, entry in entries.items():
        if name not in phones:
            warnings.append(
                document.mistake(
                    ("phones", name),
                    f"{name} is not in the rack file",
                    f"retire it: `ansible-playbook playbooks/retire.yml -l {name}`",
                )
            )
            left[name] = _as_phone(name, entry)
            continue
        phone = phones[name]
        theirs = rack.network.dhcp == "theirs"
        phones[name] = replace(
            phone,
            serial=entry.serial,
            mac=entry.mac,
            api_level=entry.api_level or phone.api_level,
            adb_open=entry.adb_open,
            address=entry.address if theirs and entry.address else phone.address,
        )
    return replace(rack, phones=phones, warnings=tuple(warnings), left=left)


def _as_phone(name: str, entry: Locked) -> Phone:
    return Phone(
        name, entry.address or "", api_level=entry.api_level, serial=entry.serial, mac=entry.mac
    )


def write_lock(path: Path, rack: str, entries: Mapping[str, Locked]) -> None:
    """Replace the lock file in one step; a crash leaves the old one or the new one."""
    import yaml

    from fleetctl.rack.schema import VERSION

    phones = {
        name: {key: value for key, value in asdict(entry).items() if value not in (None, False)}
        for name, entry in entries.items()
    }
    content = {"rack": rack, "version": VERSION, "phones": phones}
    text = "# Written by fleetctl; what enrolment found. Do not edit.\n"
    text += yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=200)
    write_atomic(path, text)
