"""What enrolment keeps of a phone: its entry in the lock file, its host key, its certificates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import SSHCertificate, load_ssh_public_identity

from fleetctl.provision.certificates import public_line
from fleetctl.provision.keys import Authority, Request, Result, fulfil
from fleetctl.provision.revocation import Revoked
from fleetctl.rack import Rack, RackPaths, load_rack
from fleetctl.rack.files import write_atomic
from fleetctl.rack.loader import lock_file_of
from fleetctl.rack.lock import Locked, read_lock, write_lock


class Records:
    """The rack's lock file and ssh folder. The session of adb keeps other enrolments away."""

    def __init__(self, rack_file: Path, rack: Rack, paths: RackPaths) -> None:
        self._rack_file, self._rack, self.paths = rack_file, rack, paths
        beside = rack_file.with_name(f"{rack_file.stem}.lock.yml")
        present = lock_file_of(rack_file, paths)
        # An operator's lock file belongs beside the rack file, a stand-in's goes with its folder.
        self.lock_file = present if present.exists() or paths.standin.exists() else beside

    def lock(self) -> dict[str, Locked]:
        """Entries by phone name, as they are now."""
        return read_lock(self.lock_file, self._rack.name)[1] if self.lock_file.exists() else {}

    def note(self, name: str, entry: Locked) -> None:
        """Put one phone's entry into the lock file, in rack order."""
        entries = {**self.lock(), name: entry}
        order = [*self._rack.phones, *entries]
        ordered = {known: entries[known] for known in dict.fromkeys(order) if known in entries}
        write_lock(self.lock_file, self._rack.name, ordered)

    def update(self, name: str, **values: str | int | None) -> None:
        """Change fields of one phone's entry."""
        self.note(name, replace(self.lock().get(name, Locked()), **values))  # type: ignore[arg-type]

    def known_key(self, name: str) -> str | None:
        """The host key that is recorded for a phone, without a comment."""
        return known_keys(self._known_hosts()).get(name)

    def learn_key(self, name: str, key: str) -> None:
        """Record the host key of a phone, instead of any other, and sign what it lacks."""
        write_atomic(self.paths.known_hosts, with_key(self._known_hosts(), name, key), mode=0o600)
        self.sign()

    def sign(self) -> Result:
        """Make the operator's key and everybody's certificates, as role `controller` does."""
        rack = load_rack(self._rack_file)
        phones = {phone.name: phone.address for phone in rack.phones.values() if phone.enrolled}
        return fulfil(self.paths.ssh, Request(rack.name, phones))

    def revoke(self, name: str) -> None:
        """Have nobody accept the keys that a phone has had so far."""
        certificates = {"host": f"hosts/{name}-cert.pub", "rank": f"ranks/{name}-cert.pub"}
        revoked = [
            Revoked(key, kind, name)  # type: ignore[arg-type]
            for kind, file in certificates.items()
            if (key := _certified_key(self.paths.ssh / file))
        ]
        if key := self.known_key(name):
            revoked.append(Revoked(key, "host", name))
        Authority(self.paths.ssh, self._rack.name).revoke(revoked)

    def _known_hosts(self) -> str:
        path = self.paths.known_hosts
        return path.read_text() if path.exists() else ""


def _certified_key(path: Path) -> str | None:
    """The public line of the key that a certificate is for."""
    if not path.exists():
        return None
    certificate = load_ssh_public_identity(path.read_bytes())
    if not isinstance(certificate, SSHCertificate):
        return None
    key = certificate.public_key()
    return public_line(key) if isinstance(key, Ed25519PublicKey) else None


def known_keys(known_hosts: str) -> dict[str, str]:
    """Public lines by name; marked lines (authorities, revoked keys) are left out."""
    keys: dict[str, str] = {}
    for line in known_hosts.splitlines():
        words = line.split()
        if len(words) >= 3 and not line.startswith(("@", "#")):
            keys |= dict.fromkeys(words[0].split(","), " ".join(words[1:3]))
    return keys


def with_key(known_hosts: str, name: str, key: str) -> str:
    """known_hosts with this as the only key of `name`; other lines stay, in their order."""
    plain = f"{name} {' '.join(key.split()[:2])}"
    lines = known_hosts.splitlines()
    kept = [line for line in lines if line.split(" ", 1)[0] != name]
    return "\n".join([*kept, plain, ""])
