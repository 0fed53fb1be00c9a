"""What enrolment leaves behind on a real rack, made for stand-in phones: keys and lock file.

A phone's serial and MAC are always the same for one name in one rack; keys last until `down`.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fleetctl.rack import Phone, Rack, RackPaths
from fleetctl.rack.files import write_atomic
from fleetctl.rack.lock import Locked, write_lock
from standin.android import fresh
from standin.android.apk import load_signer
from standin.android.state import has_state, write_state
from standin.commands import run
from standin.fabric import SERVICES, derived_mac

MODEL = "SM-G975F"
API_LEVEL = 31
FIRST_APP_UID = 10_001
HOST_KEY = "ssh_host_ed25519_key"
APP_SIGNER = "termux"
"""Whose signature the apps of enrolled phones bear, and those of `fleetctl standin apks`."""

ABIS = {"x86_64": "x86_64", "aarch64": "arm64-v8a"}
"""Android's names for what this machine, and so every stand-in phone on it, runs."""

_SERIAL_LETTERS = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Folders:
    """The stand-in's own part of a rack's folder."""

    root: Path

    @property
    def record(self) -> Path:
        """Says that the rack's folder is a stand-in's, and with what it came up."""
        return self.root / "up.json"

    @property
    def faults(self) -> Path:
        return self.root / "faults.json"

    @property
    def denied(self) -> Path:
        """A file that nobody may read, for what Android hides from apps."""
        return self.root / "denied"

    @property
    def storage(self) -> Path:
        """Where the phones' storage lies, a file system a phone."""
        return self.root / "storage"

    @property
    def switches(self) -> Path:
        """What belongs to the switches that are Open vSwitches, a folder each."""
        return self.root / "switches"

    def signer(self, name: str) -> Path:
        """A key that signs the stand-in's Android packages."""
        return self.root / "signers" / f"{name}.pem"

    def enrol(self, host: str) -> Path:
        return self.root / "enrol" / host

    def hardware(self, phone: str) -> Path:
        return self.root / "hw" / phone


def derived_serial(rack: str, phone: str) -> str:
    """A serial of Samsung's kind, always the same for one phone of one rack."""
    digest = hashlib.sha256(f"serial/{rack}/{phone}".encode()).digest()
    tail = "".join(_SERIAL_LETTERS[byte % len(_SERIAL_LETTERS)] for byte in digest[:7])
    return f"R58M{tail}"


def locked(rack: Rack, phone: Phone) -> Locked:
    """What enrolment would have found out about `phone`."""
    return Locked(
        serial=phone.serial or derived_serial(rack.name, phone.name),
        mac=phone.mac or derived_mac(rack.name, phone.name),
        address=phone.address,
        api_level=phone.api_level or API_LEVEL,
    )


def merge_known_hosts(present: str, keys: Iterable[tuple[str, str]]) -> str:
    """`present` with a line for each (name, public key); other lines stay, in their order."""
    wanted = {name: f"{name} {' '.join(key.split()[:2])}" for name, key in keys}
    kept = [line for line in present.splitlines() if line.split(" ", 1)[0] not in wanted]
    return "\n".join([*kept, *wanted.values(), ""])


def make_android(folders: Folders, rack: Rack, phone: Phone, boxed: bool) -> None:
    """What the phone's Android begins with; one that is kept already stays."""
    folder = folders.hardware(phone.name)
    if has_state(folder):
        return
    uid = FIRST_APP_UID + list(rack.phones).index(phone.name)
    level, abi = phone.api_level or API_LEVEL, ABIS[platform.machine()]
    if boxed:
        state = fresh.boxed(level, abi, uid)
    else:
        network = rack.network
        served = network.services or network.controller
        signer = load_signer(folders.signer(APP_SIGNER))
        state = fresh.enrolled(
            level,
            abi,
            uid,
            wired=network.medium == "ethernet",
            time_server=served if network.time == "ours" else None,
            signer=signer.digest,
            signature=signer.signature,
        )
    write_state(folder, state)


def renew_retired(rack: Rack, paths: RackPaths) -> list[str]:
    """The phones whose key was revoked as they left the rack: another one comes in their place.

    Their keys go, so that `enrol` makes new ones; the caller drops their containers.
    """
    revoked = paths.ssh / "revoked"
    words = set(revoked.read_text().split()) if revoked.exists() else set()
    folders = Folders(paths.standin)
    gone = []
    for name in rack.phones:
        key = folders.enrol(name) / f"{HOST_KEY}.pub"
        if key.exists() and key.read_text().split()[1] in words:
            key.with_name(HOST_KEY).unlink()
            gone.append(name)
    return gone


def enrol(rack: Rack, paths: RackPaths, boxed: bool = False) -> None:
    """Make what is missing of keys, known hosts and lock file for every phone and `services`.

    Nobody has enrolled `boxed` phones yet, so of these nothing is known.
    """
    folders = Folders(paths.standin)
    if not paths.operator.exists():
        _make_key(paths.operator, f"operator@{rack.name}")
    operator = paths.operator_pub.read_text()
    for host in (*rack.phones, SERVICES):
        folders.enrol(host).mkdir(parents=True, exist_ok=True)
    hosts = [SERVICES] if boxed else [*rack.phones, SERVICES]
    for host in hosts:
        write_atomic(folders.enrol(host) / "authorized_keys", operator, mode=0o600)
    missing = [host for host in hosts if not (folders.enrol(host) / HOST_KEY).exists()]
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda host: _make_key(folders.enrol(host) / HOST_KEY, host), missing))
    keys = [(host, (folders.enrol(host) / f"{HOST_KEY}.pub").read_text()) for host in hosts]
    present = paths.known_hosts.read_text() if paths.known_hosts.exists() else ""
    write_atomic(paths.known_hosts, merge_known_hosts(present, keys), mode=0o600)
    if not boxed:
        entries = {phone.name: locked(rack, phone) for phone in rack.phones.values()}
        write_lock(paths.lock_file, rack.name, entries)


def _make_key(path: Path, comment: str) -> None:
    """A key pair whose private half appears last and whole."""
    temporary = path.with_name(f".{path.name}")
    for half in (temporary, temporary.with_name(f"{temporary.name}.pub")):
        half.unlink(missing_ok=True)
    run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(temporary)))
    temporary.with_name(f"{temporary.name}.pub").replace(path.with_name(f"{path.name}.pub"))
    temporary.replace(path)
