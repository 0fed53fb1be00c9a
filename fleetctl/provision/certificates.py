"""Keys as OpenSSH writes them, and certificates over them. Pure.

Certificates have no expiry and count from 1970 on: a phone whose clock was reset must not lock
itself out. What may no longer count is revoked.
"""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateBuilder,
    SSHCertificateType,
)

FOREVER = 2**64 - 1
KEY_TYPE = "ssh-ed25519"


@dataclass(frozen=True, slots=True)
class Grant:
    """What a certificate says: who, under which principals, with which rights and limits."""

    kind: SSHCertificateType
    identity: str
    principals: tuple[str, ...]
    rights: tuple[bytes, ...] = ()
    source: str | None = None
    """The only network from which it counts."""

    @property
    def limits(self) -> dict[bytes, bytes]:
        return {b"source-address": self.source.encode()} if self.source else {}


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
    for name, value in grant.limits.items():
        builder = builder.add_critical_option(name, value)
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
        and certificate.critical_options == grant.limits
        and certificate.valid_before == FOREVER
    )


def certified_key(line: str) -> str | None:
    """The public line of the key that a certificate is about; None if it is no certificate."""
    try:
        certificate = serialization.load_ssh_public_identity(line.encode())
    except ValueError:
        return None
    if not isinstance(certificate, SSHCertificate):
        return None
    holder = certificate.public_key()
    return public_line(holder) if isinstance(holder, Ed25519PublicKey) else None
