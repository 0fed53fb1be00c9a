"""What adb tells of a phone before it is enrolled, whether it can serve, and which place it takes.

Pure, but for the calls that ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv4Network

from fleetctl.provision.android import TERMUX_APPS
from fleetctl.rack import InputError, Phone, Rack
from fleetctl.rack.lock import Locked
from fleetctl.remote.adb import AdbLost, AdbPhone

LEAST_API_LEVEL = 28
"""Android 9, with which the oldest phones of the paper's rack shipped."""

LEAST_MEMORY_BYTES = 1800 << 20
"""A phone sold with 2 GB shows a little less."""

LEAST_STORAGE_BYTES = 4 << 30
"""Python, PyTorch, a release, data and checkpoints."""

LEAST_AGAIN_BYTES = 512 << 20
"""Termux, unpacked, and ssh: what enrolment itself brings to a phone that has been enrolled."""

ABI = {"termux-aarch64": "arm64-v8a", "linux-aarch64": "arm64-v8a", "linux-x86_64": "x86_64"}
"""Android's name for the processor that a release target needs."""

_MARK = "@@phonerack"
_SIGNATURE = re.compile(r"PackageSignatures\{[^\[]*\[([0-9a-f]+)")
_SCRIPT = "; ".join(
    f"echo {_MARK}; {command}"
    for command in (
        "getprop",
        "cat /proc/meminfo",
        "df -k /data",
        "pm list packages -3 --show-versioncode",
        *(f"dumpsys package {app} | grep -F PackageSignatures | head -n 1" for app in TERMUX_APPS),
    )
)


@dataclass(frozen=True, slots=True)
class Found:
    """A phone at the end of adb. `apps` maps packages that somebody installed to version codes,
    `signatures` those of Termux to what Android prints of their signers, where it does."""

    link: str
    serial: str
    model: str = ""
    manufacturer: str = ""
    api_level: int = 0
    abis: tuple[str, ...] = ()
    memory_bytes: int = 0
    storage_bytes: int = 0
    apps: Mapping[str, int] = field(default_factory=dict)
    signatures: Mapping[str, str] = field(default_factory=dict)


async def ask(phone: AdbPhone) -> Found:
    """Raises AdbLost, also for a phone that is still starting."""
    said = await phone.shell(_SCRIPT)
    found = understand(phone.link, said.stdout)
    if not found.serial or not found.api_level:
        raise AdbLost("it tells neither serial nor API level; wait until it has started")
    return found


def understand(link: str, said: str) -> Found:
    """Facts out of what the phone's shell printed; what is missing stays empty."""
    parts = said.split(_MARK)[1:]
    props_text, memory, storage, apps = [*parts, "", "", "", ""][:4]
    signers = zip(TERMUX_APPS, map(_SIGNATURE.search, parts[4:]), strict=False)
    props = dict(re.findall(r"^\[(.+?)\]: \[(.*?)\]$", props_text, re.MULTILINE))
    total = re.search(r"^MemTotal:\s+(\d+) kB", memory, re.MULTILINE)
    free = re.findall(r"\s(\d+)\s+(\d+)\s+(\d+)\s+\d+%", storage)
    level = props.get("ro.build.version.sdk", "")
    return Found(
        link=link,
        serial=props.get("ro.serialno") or props.get("ro.boot.serialno", ""),
        model=props.get("ro.product.model", ""),
        manufacturer=props.get("ro.product.manufacturer", ""),
        api_level=int(level) if level.isdigit() else 0,
        abis=tuple(filter(None, props.get("ro.product.cpu.abilist", "").split(","))),
        memory_bytes=int(total[1]) << 10 if total else 0,
        storage_bytes=int(free[-1][2]) << 10 if free else 0,
        apps={
            name: int(code)
            for name, code in re.findall(r"^package:(\S+) versionCode:(\d+)", apps, re.MULTILINE)
        },
        signatures={app: found[1] for app, found in signers if found},
    )


@dataclass(frozen=True, slots=True)
class Interface:
    """A phone's way into a network: its address there, and the MAC that it shows."""

    address: str
    mac: str


async def interface_in(phone: AdbPhone, cidr: IPv4Network) -> Interface | None:
    """By which interface a phone is in this network; None while it is not. Raises AdbLost."""
    said = await phone.shell("ip -o -4 address show; ip -o link show")
    return find_interface(said.stdout, cidr)


def find_interface(said: str, cidr: IPv4Network) -> Interface | None:
    """Out of what `ip -o address` and `ip -o link` printed."""
    macs = dict(re.findall(r"^\d+: ([^\s:@]+).*link/ether ([0-9a-fA-F:]{17})", said, re.MULTILINE))
    for name, address in re.findall(r"^\d+: ([^\s:@]+).*\sinet ([\d.]+)[/ ]", said, re.MULTILINE):
        with suppress(AddressValueError):
            if name in macs and IPv4Address(address) in cidr:
                return Interface(address, macs[name].lower())
    return None


def unfit(found: Found, place: Phone, *, again: bool = False) -> list[str]:
    """Why this phone cannot serve at this place of the rack; empty if it can.

    With `again` it has served there, and may hold already what it needs the room for.
    """
    reasons = []
    wanted = ABI[place.target]
    if wanted not in found.abis:
        reasons.append(
            f"its processor runs {', '.join(found.abis) or 'nothing that it tells'}, and target "
            f"{place.target} of {place.name} needs {wanted}"
        )
    if found.api_level < LEAST_API_LEVEL:
        reasons.append(f"API level {found.api_level}: Android 9 (28) is the least")
    if found.memory_bytes < LEAST_MEMORY_BYTES:
        reasons.append(f"{_gib(found.memory_bytes)} of memory, and it takes 2")
    least_bytes = LEAST_AGAIN_BYTES if again else LEAST_STORAGE_BYTES
    if found.storage_bytes < least_bytes:
        cure = "delete what is on it" if again else "reset the phone, or delete what is on it"
        reasons.append(
            f"{_gib(found.storage_bytes)} of free storage, and it takes {_gib(least_bytes)}: {cure}"
        )
    return reasons


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.1f} GiB"


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which place each phone takes, by serial; who takes none, and why."""

    places: Mapping[str, str]
    refused: Mapping[str, str]


def assign(
    found: Iterable[Found], rack: Rack, lock: Mapping[str, Locked], name: str | None = None
) -> Assignment:
    """Places for phones: their own where they have one, else the next free one that fits.

    With `name` the only phone found takes that place. Raises InputError where it cannot.
    """
    owners = {entry.serial: place for place, entry in lock.items() if entry.serial}
    free = [place for place in rack.phones if not (place in lock and lock[place].serial)]
    places: dict[str, str] = {}
    refused: dict[str, str] = {}
    phones = list(found)
    if name is not None:
        return Assignment({_only(phones, name, owners, rack, lock): name}, {})
    for phone in phones:
        own = owners.get(phone.serial)
        if own is None:
            own = next((place for place in free if _suits(phone, rack.phones[place])), None)
            if own is not None:
                free.remove(own)
        if own is not None:
            places[phone.serial] = own
        else:
            refused[phone.serial] = _no_place(phone, rack, free)
    return Assignment(places, refused)


def _only(
    phones: list[Found],
    name: str,
    owners: Mapping[str, str],
    rack: Rack,
    lock: Mapping[str, Locked],
) -> str:
    """The serial of the one phone that shall have the place `name`."""
    if name not in rack.phones:
        raise InputError(f"{name} is not in the rack file: add it, or choose another name")
    if len(phones) != 1:
        serials = ", ".join(phone.serial for phone in phones) or "none"
        raise InputError(
            f"{name} is one phone, and adb sees {len(phones)} ({serials}): add --serial"
        )
    serial = phones[0].serial
    if (own := owners.get(serial, name)) != name:
        raise InputError(
            f"{serial} is {own} already: enrol it as that, or retire {own} first "
            "(playbooks/retire.yml)"
        )
    holder = lock[name].serial if name in lock else None
    if holder not in (None, serial):
        raise InputError(
            f"{name} is the phone {holder}; to put {serial} in its place, run "
            f"`fleetctl enroll --replace {name} --serial {serial}`"
        )
    return serial


def _suits(phone: Found, place: Phone) -> bool:
    return place.model in (None, phone.model) and ABI[place.target] in phone.abis


def _no_place(phone: Found, rack: Rack, free: list[str]) -> str:
    if not free:
        return f"all {len(rack.phones)} places of the rack file are taken: add one to it"
    reasons = unfit(phone, rack.phones[free[0]])
    if reasons:
        return "; ".join(reasons)
    models = sorted({rack.phones[place].model or "" for place in free})
    return f"it is a {phone.model}, and the free places are for {', '.join(models)}"
