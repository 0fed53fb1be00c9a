"""Stand-ins for Android packages: real in form and signature (scheme v2), with nothing to run.

A manifest in Android's binary form, signed by a key of the stand-in's. What `pm install` of a
stand-in phone reads lies beside it as `assets/standin.json`: a package without that, such as the
real Termux, holds no code for this machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fleetctl.rack.files import write_atomic
from standin.android.state import TERMUX, TERMUX_API, TERMUX_BOOT

CONTENT = "assets/standin.json"
_V2_BLOCK = 0x7109871A
_ECDSA_SHA256 = 0x0201
_MAGIC = b"APK Sig Block 42"
_CHUNK_BYTES = 1 << 20

_NO_ENTRY = 0xFFFFFFFF
_STRING, _NUMBER, _BOOLEAN = 0x03, 0x10, 0x12
_ANDROID = "http://schemas.android.com/apk/res/android"
# Android's numbers of the attributes that a manifest uses here.
_ATTRIBUTES = {
    "versionCode": 0x0101021B,
    "versionName": 0x0101021C,
    "sharedUserId": 0x0101000B,
    "debuggable": 0x0101000F,
}


@dataclass(frozen=True, slots=True)
class Content:
    """What Android learns from a package. `signer`: SHA-256 of its certificate, `signature`: Java's
    hash of it, both in hex digits."""

    package: str
    version_code: int
    version_name: str
    debuggable: bool = False
    shared_user: str = "com.termux"
    signer: str = ""
    signature: str = ""


class Unreadable(Exception):
    """This file is no package that a stand-in phone can install."""


def read(data: bytes) -> Content:
    """What is in a stand-in package. Raises Unreadable."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return Content(**json.loads(archive.read(CONTENT)))
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError) as problem:
        raise Unreadable(str(problem)) from None


@dataclass(frozen=True, slots=True)
class Signer:
    key: ec.EllipticCurvePrivateKey
    certificate: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.certificate).hexdigest()

    @property
    def signature(self) -> str:
        """As `dumpsys package` prints it: Java's Arrays.hashCode of signed bytes."""
        value = 1
        for byte in self.certificate:
            value = 31 * value + (byte - 256 if byte > 127 else byte)
        return f"{value & 0xFFFFFFFF:x}"


def load_signer(path: Path) -> Signer:
    """The signing key kept in this file; made when it is not there yet."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, _make_key(path.stem), mode=0o600)
    text = path.read_bytes()
    key = serialization.load_pem_private_key(text, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Unreadable(f"{path} is no key of the stand-in's")
    certificate = x509.load_pem_x509_certificate(text[text.index(b"-----BEGIN CERT") :])
    return Signer(key, certificate.public_bytes(serialization.Encoding.DER))


def _make_key(name: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"stand-in {name}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(pem)


def standin_apps(debuggable: bool) -> dict[str, Content]:
    """The three apps that a rack needs, by file name."""
    kind = "debug" if debuggable else "release"
    versions = {TERMUX: (118, "0.118.0"), TERMUX_API: (51, "0.51.0"), TERMUX_BOOT: (7, "0.7")}
    return {
        f"{package}_{kind}.apk": Content(package, code, name, debuggable)
        for package, (code, name) in versions.items()
    }


def build(content: Content, signer: Signer) -> bytes:
    """A package with this content, signed."""
    signed = replace(content, signer=signer.digest, signature=signer.signature)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        # Equal content makes equal files.
        archive.writestr(zipfile.ZipInfo("AndroidManifest.xml"), manifest(content))
        archive.writestr(zipfile.ZipInfo(CONTENT), json.dumps(asdict(signed)))
    return _sign(packed.getvalue(), signer)


def manifest(content: Content) -> bytes:
    """AndroidManifest.xml in Android's binary form."""
    names = list(_ATTRIBUTES)
    strings = [*names, "android", _ANDROID, "manifest", "application", "package"]
    strings += [content.package, content.version_name, content.shared_user]
    place = {text: strings.index(text) for text in strings}

    def attribute(name: str, kind: int, value: int, *, text: bool = False) -> bytes:
        space = place[_ANDROID] if name in _ATTRIBUTES else _NO_ENTRY
        raw = value if text else _NO_ENTRY
        return struct.pack("<IIIHBBI", space, place[name], raw, 8, 0, kind, value)

    top = [
        attribute("sharedUserId", _STRING, place[content.shared_user], text=True),
        attribute("versionCode", _NUMBER, content.version_code),
        attribute("versionName", _STRING, place[content.version_name], text=True),
        attribute("package", _STRING, place[content.package], text=True),
    ]
    flag = _NO_ENTRY if content.debuggable else 0
    body = (
        _string_pool(strings)
        + _chunk(0x0180, struct.pack(f"<{len(names)}I", *_ATTRIBUTES.values()))
        + _node(0x0100, struct.pack("<II", place["android"], place[_ANDROID]))
        + _start(place["manifest"], top)
        + _start(place["application"], [attribute("debuggable", _BOOLEAN, flag)])
        + _node(0x0103, struct.pack("<II", _NO_ENTRY, place["application"]))
        + _node(0x0103, struct.pack("<II", _NO_ENTRY, place["manifest"]))
        + _node(0x0101, struct.pack("<II", place["android"], place[_ANDROID]))
    )
    return _chunk(0x0003, body)


def _chunk(kind: int, body: bytes, header: bytes = b"") -> bytes:
    return struct.pack("<HHI", kind, 8 + len(header), 8 + len(header) + len(body)) + header + body


def _node(kind: int, body: bytes) -> bytes:
    return _chunk(kind, body, struct.pack("<II", 1, _NO_ENTRY))


def _start(name: int, attributes: list[bytes]) -> bytes:
    head = struct.pack("<IIHHHHHH", _NO_ENTRY, name, 20, 20, len(attributes), 0, 0, 0)
    return _node(0x0102, head + b"".join(attributes))


def _string_pool(strings: list[str]) -> bytes:
    data, offsets = b"", []
    for text in strings:
        offsets.append(len(data))
        data += struct.pack("<H", len(text)) + text.encode("utf-16-le") + b"\0\0"
    data += b"\0" * (-len(data) % 4)
    head_size = 28
    header = struct.pack("<IIIII", len(strings), 0, 0, head_size + 4 * len(strings), 0)
    return _chunk(0x0001, struct.pack(f"<{len(offsets)}I", *offsets) + data, header)


def _prefixed(*parts: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)


def _sign(archive: bytes, signer: Signer) -> bytes:
    """The archive with a signing block (APK signature scheme v2) before its directory."""
    end = archive.rindex(b"PK\5\6")
    start = struct.unpack_from("<I", archive, end + 16)[0]
    entries, directory, tail = archive[:start], archive[start:end], archive[end:]
    digest = _content_digest((entries, directory, tail))
    signed = _prefixed(
        _prefixed(struct.pack("<I", _ECDSA_SHA256) + _prefixed(digest)),
        _prefixed(signer.certificate),
        b"",
    )
    signature = signer.key.sign(signed, ec.ECDSA(hashes.SHA256()))
    public = signer.key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signatures = _prefixed(struct.pack("<I", _ECDSA_SHA256) + _prefixed(signature))
    one = _prefixed(signed, signatures, public)
    value = struct.pack("<I", _V2_BLOCK) + _prefixed(_prefixed(one))
    pair = struct.pack("<Q", len(value)) + value
    size = struct.pack("<Q", len(pair) + 8 + len(_MAGIC))
    block = size + pair + size + _MAGIC
    moved = tail[:16] + struct.pack("<I", start + len(block)) + tail[20:]
    return entries + block + directory + moved


def _content_digest(sections: Iterable[bytes]) -> bytes:
    chunks = [
        section[place : place + _CHUNK_BYTES]
        for section in sections
        for place in range(0, len(section), _CHUNK_BYTES)
    ]
    digests = [
        hashlib.sha256(b"\xa5" + struct.pack("<I", len(chunk)) + chunk).digest() for chunk in chunks
    ]
    head = b"\x5a" + struct.pack("<I", len(chunks))
    return hashlib.sha256(head + b"".join(digests)).digest()
