"""With what a stand-in rack came up, and whether a command agrees with it."""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path
from typing import TypedDict

from fleetctl.rack import InputError, Rack, RackPaths, load_rack
from fleetctl.rack.files import write_atomic
from standin.commands import require_host
from standin.derived import derive_rack_file
from standin.enrolment import Folders
from standin.errors import StandinError
from standin.fabric import FabricPlan, Kind, plan_fabric, usual_kind
from standin.rig import Rig


class Record(TypedDict):
    """Kept as `up.json`; where it lies, the rack's folder is a stand-in's and goes with `down`."""

    version: int
    rack_file: str
    rate: str | None
    fabric: str
    boxed: bool
    fabric_kind: Kind


def is_standin(folder: Path) -> bool:
    """Whether `folder` is the folder of a stand-in rack that is up, or was when it broke."""
    return Folders(folder / "standin").record.exists()


def is_up(rack: str) -> bool:
    return is_standin(RackPaths(rack).dir)


def read_record(paths: RackPaths) -> Record:
    record: Record = json.loads(Folders(paths.standin).record.read_text())
    return record


def write_record(rig: Rig, rack_file: Path, boxed: bool = False) -> None:
    record = Record(
        version=1,
        rack_file=str(rack_file.resolve()),
        rate=rig.plan.rate,
        fabric=_fingerprint(rig.plan),
        boxed=boxed,
        fabric_kind=rig.plan.kind,
    )
    write_atomic(rig.folders.record, json.dumps(record, indent=2) + "\n")


def _fingerprint(plan: FabricPlan) -> str:
    return hashlib.sha256(repr(plan).encode()).hexdigest()


def native_target() -> str:
    """The release target that runs in containers on this machine."""
    return f"linux-{platform.machine()}"


def open_rig(rack: Rack) -> Rig:
    """The rig of a rack that is up, with the rate that it came up with."""
    require_host()
    if not is_up(rack.name):
        raise StandinError(f"rack `{rack.name}` is not up: `fleetctl standin up` brings it up")
    paths = RackPaths(rack.name)
    record = read_record(paths)
    rig = Rig(rack, paths, plan_fabric(rack, record["rate"], _kind(record)))
    _refuse_other_plan(rig)
    return rig


def recorded_rig(folder: Path) -> Rig:
    """The rig of the stand-in rack that is kept in `folder`, as it came up."""
    paths = RackPaths(folder.name, folder.parent)
    record = read_record(paths)
    rack = load_rack(Path(record["rack_file"]))
    rig = Rig(rack, paths, plan_fabric(rack, record["rate"], _kind(record)))
    _refuse_other_plan(rig)
    return rig


def settle_rack_file(
    rack_file: Path, rack: Rack, phones: int | None, switches: int | None, openmpi: str | None
) -> Path:
    """`rack_file` where it is what the options ask for, else one derived from it and written.

    Raises InputError when a rack with another derived file is up.
    """
    present = (len(rack.phones), len(rack.switches), rack.versions.openmpi)
    asked = (phones, switches, openmpi)
    if all(want in (None, have) for want, have in zip(asked, present, strict=True)):
        return rack_file
    paths = RackPaths(rack.name)
    path = paths.dir / "rack.yml"
    text = derive_rack_file(rack, native_target(), phones or len(rack.phones), switches, openmpi)
    if path.exists() and path.read_text() == text:
        return path
    if is_up(rack.name):
        raise InputError(
            f"rack `{rack.name}` is up with other options: `fleetctl standin down` first"
        )
    paths.ensure()
    write_atomic(path, text)
    return path


def refuse_real_phones(rack: Rack) -> None:
    native = native_target()
    for phone in rack.phones.values():
        if phone.target != native:
            raise InputError(
                f"rack `{rack.name}` is no stand-in rack: {phone.name} has target {phone.target}, "
                f"a stand-in on this machine {native}"
            )


def agreed_rate(rack: Rack, paths: RackPaths, rate: str | None) -> str | None:
    if not is_up(rack.name):
        return rate
    present = read_record(paths)["rate"]
    if rate and rate != present:
        raise InputError(
            f"rack `{rack.name}` is up with {present or 'unshaped'} links: "
            "`fleetctl standin down` first"
        )
    return present


def agreed_kind(rack: Rack, paths: RackPaths, kind: Kind | None) -> Kind:
    """What the switches of the rack are to be, or are."""
    if not is_up(rack.name):
        return kind or usual_kind(rack)
    present = _kind(read_record(paths))
    if kind and kind != present:
        raise InputError(
            f"rack `{rack.name}` is up on fabric {present}: `fleetctl standin down` first"
        )
    return present


def _kind(record: Record) -> Kind:
    """One that was written before there was a choice is of a rack of plain bridges."""
    return record.get("fabric_kind", "bridge")


def agreed_boxed(rack: Rack, paths: RackPaths, boxed: bool) -> bool:
    """Whether the rack's phones come, or came, as out of the box."""
    if not is_up(rack.name):
        return boxed
    present = read_record(paths).get("boxed", False)
    if boxed and not present:
        raise InputError(
            f"rack `{rack.name}` is up with enrolled phones: `fleetctl standin down` first"
        )
    return present


def refuse_foreign(rig: Rig) -> None:
    """A rack of this name may be up already with other phones, or from another folder."""
    name = rig.rack.name
    for found in rig.containers().values():
        if found.folder != str(rig.paths.dir):
            raise StandinError(
                f"rack `{name}` is up already, kept in {found.folder}: take it down there "
                "(PHONERACK_HOME), or give this rack another name"
            )
    if not is_up(name):
        if any(rig.paths.runs.glob("*")):
            raise StandinError(
                f"{rig.paths.dir} holds runs, and `down` would remove it with the stand-in: "
                "give the rack another name, or move the folder away"
            )
    else:
        _refuse_other_plan(rig)


def _refuse_other_plan(rig: Rig) -> None:
    record = read_record(rig.paths)
    if record["fabric"] != _fingerprint(rig.plan):
        raise InputError(
            f"rack `{rig.rack.name}` is up with other phones, switches or addresses, those of "
            f"{record['rack_file']}: use that (export PHONERACK_RACK={record['rack_file']}), "
            "or `fleetctl standin down` first"
        )
