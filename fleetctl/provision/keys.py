"""The rack's ssh keys: the certificate authority, the operator, everybody's certificates, releases.

`python -m fleetctl.provision.keys SSH_FOLDER [--check]` reads a JSON request on stdin and makes
what is missing or no longer fits. It prints what changed, who is not enrolled, and the public lines
that phones are given. Role `controller` runs it, and role `ssh` for the keys of the ranks.

Certificates have no expiry: a phone whose clock was reset must not lock itself out. The private
key of the authority stays in this folder. Host certificates are made for the host keys that
enrolment recorded in known_hosts, never for one that a phone merely claims.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    SSHCertificate,
    SSHCertificateBuilder,
    SSHCertificateType,
)

from fleetctl.provision import signing
from fleetctl.rack.files import write_atomic

FOREVER = 2**64 - 1
OPERATOR_RIGHTS = (b"permit-port-forwarding", b"permit-pty")
KEY_TYPE = "ssh-ed25519"


@dataclass(frozen=True, slots=True)
class Grant:
    """What a certificate says: who, under which principals, with which rights."""

    kind: SSHCertificateType
    identity: str
    principals: tuple[str, ...]
    rights: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """Phones with their addresses, and the public keys that they use to reach each other."""

    rack: str
    phones: Mapping[str, str]
    ranks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """Files that changed, phones that nobody enrolled, and the public lines for the phones."""

    changed: list[str]
    unknown: list[str]
    authority: str
    trust: str
    signers: str
    hosts: dict[str, str]
    ranks: dict[str, str]


def public_line(key: Ed25519PublicKey) -> str:
    """`ssh-ed25519 AAAA…`, without a comment."""
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def read_public(text: str) -> Ed25519PublicKey:
    """The key of a public line, whatever its comment. Raises ValueError for another type."""
    key = serialization.load_ssh_public_key(" ".join(text.split()[:2]).encode())
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError(f"not an {KEY_TYPE} key: {text[:40]}…")
    return key


def sign(authority: Ed25519PrivateKey, key: Ed25519PublicKey, grant: Grant) -> str:
    """A certificate line for `key`."""
    builder = (
        SSHCertificateBuilder()
        .public_key(key)
        .type(grant.kind)
        .key_id(grant.identity.encode())
        .valid_principals([principal.encode() for principal in grant.principals])
        .valid_after(0)
        .valid_before(FOREVER)
    )
    for right in grant.rights:
        builder = builder.add_extension(right, b"")
    return f"{builder.sign(authority).public_bytes().decode().strip()} {grant.identity}"


def fits(line: str, authority: Ed25519PublicKey, key: Ed25519PublicKey, grant: Grant) -> bool:
    """Whether a certificate line is this authority's, for this key, and says what it shall."""
    try:
        certificate = serialization.load_ssh_public_identity(line.encode())
        if not isinstance(certificate, SSHCertificate):
            return False
        certificate.verify_cert_signature()
    except (ValueError, InvalidSignature):
        return False
    signer, holder = certificate.signature_key(), certificate.public_key()
    return (
        isinstance(signer, Ed25519PublicKey)
        and isinstance(holder, Ed25519PublicKey)
        and public_line(signer) == public_line(authority)
        and public_line(holder) == public_line(key)
        and certificate.type == grant.kind
        and certificate.key_id == grant.identity.encode()
        and set(certificate.valid_principals) == {p.encode() for p in grant.principals}
        and set(certificate.extensions) == set(grant.rights)
        and certificate.valid_before == FOREVER
    )


def trust_line(names: Iterable[str], authority: str) -> str:
    """The known_hosts line that trusts the authority for exactly these names."""
    return f"@cert-authority {','.join(names)} {authority}"


def with_trust(known_hosts: str, trust: str) -> str:
    """known_hosts with this line as its only one about an authority; unchanged where it is."""
    lines = known_hosts.splitlines()
    authorities = [line for line in lines if line.startswith("@cert-authority ")]
    if authorities == [trust]:
        return known_hosts
    return "\n".join([*(line for line in lines if line not in authorities), trust, ""])


def host_keys(known_hosts: str) -> dict[str, str]:
    """Public lines by name, from known_hosts."""
    keys: dict[str, str] = {}
    for line in known_hosts.splitlines():
        names, _, key = line.partition(" ")
        if key.startswith(f"{KEY_TYPE} "):
            keys |= dict.fromkeys(names.split(","), key)
    return keys


class Authority:
    """One rack's ssh folder. With `check` nothing is written, only said."""

    def __init__(self, folder: Path, rack: str, check: bool = False) -> None:
        self.folder = folder
        self.rack = rack
        self.check = check
        self.changed: list[str] = []
        self.key = self._key_pair("ca", f"{rack} certificate authority")
        self.public = self.key.public_key()

    def _key_pair(self, name: str, comment: str) -> Ed25519PrivateKey:
        """The private key of this name, made when it is missing, with its public half beside it."""
        path = self.folder / name
        if path.exists():
            key = serialization.load_ssh_private_key(path.read_bytes(), password=None)
            if not isinstance(key, Ed25519PrivateKey):
                raise ValueError(f"{path} is not an {KEY_TYPE} key")
        else:
            key = Ed25519PrivateKey.generate()
            secret = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
            self._write(name, secret.decode())
        line = public_line(key.public_key())
        present = self._read(f"{name}.pub")
        if present is None or present.split()[:2] != line.split():
            self._write(f"{name}.pub", f"{line} {comment}\n")
        return key

    def _read(self, name: str) -> str | None:
        path = self.folder / name
        return path.read_text() if path.exists() else None

    def _write(self, name: str, text: str) -> None:
        self.changed.append(name)
        if self.check:
            return
        path = self.folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, text, mode=0o600)

    def certify(self, name: str, key: Ed25519PublicKey, grant: Grant) -> str:
        """The certificate in file `name` that says `grant`; one that fits is left alone."""
        present = self._read(name)
        if present is not None and fits(present, self.public, key, grant):
            return present.strip()
        line = sign(self.key, key, grant)
        self._write(name, f"{line}\n")
        return line

    def certify_operator(self) -> None:
        identity = f"operator@{self.rack}"
        key = self._key_pair("operator", identity)
        grant = Grant(SSHCertificateType.USER, identity, ("operator",), OPERATOR_RIGHTS)
        self.certify("operator-cert.pub", key.public_key(), grant)

    def release_signers(self) -> str:
        """The line by which phones know who signs their releases; makes the key first."""
        key = self._key_pair(signing.KEY, signing.signer(self.rack))
        return signing.allowed_signers(self.rack, public_line(key.public_key()))

    def certify_hosts(self, phones: Mapping[str, str]) -> dict[str, str]:
        """Certificates of the phones that are enrolled, by name."""
        enrolled = host_keys(self._read("known_hosts") or "")
        return {
            name: self.certify(
                f"hosts/{name}-cert.pub",
                read_public(enrolled[name]),
                Grant(SSHCertificateType.HOST, name, (name, address)),
            )
            for name, address in phones.items()
            if name in enrolled
        }

    def certify_ranks(self, ranks: Mapping[str, str]) -> dict[str, str]:
        """Certificates for what phones use among themselves: commands, nothing else."""
        return {
            name: self.certify(
                f"ranks/{name}-cert.pub",
                read_public(line),
                Grant(SSHCertificateType.USER, f"{name}@{self.rack}", ("rank",)),
            )
            for name, line in ranks.items()
        }

    def be_trusted(self, names: Iterable[str]) -> str:
        """Have the controller trust the authority for these names; the line that says so."""
        trust = trust_line(names, public_line(self.public))
        known_hosts = self._read("known_hosts") or ""
        if (trusting := with_trust(known_hosts, trust)) != known_hosts:
            self._write("known_hosts", trusting)
        return trust


def fulfil(folder: Path, request: Request, check: bool = False) -> Result:
    """Make what the request needs and describe it."""
    authority = Authority(folder, request.rack, check)
    authority.certify_operator()
    hosts = authority.certify_hosts(request.phones)
    ranks = authority.certify_ranks(request.ranks)
    trust = authority.be_trusted(request.phones)
    signers = authority.release_signers()
    return Result(
        changed=sorted(authority.changed),
        unknown=sorted(request.phones.keys() - hosts.keys()),
        authority=public_line(authority.public),
        trust=trust,
        signers=signers,
        hosts=hosts,
        ranks=ranks,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m fleetctl.provision.keys")
    parser.add_argument("folder", type=Path, help="the rack's ssh folder")
    parser.add_argument("--check", action="store_true", help="only say what would change")
    options = parser.parse_args(arguments)
    request = Request(**json.load(sys.stdin))
    try:
        result = fulfil(options.folder, request, options.check)
    except ValueError as problem:
        sys.exit(f"{options.folder}: {problem}")
    print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
