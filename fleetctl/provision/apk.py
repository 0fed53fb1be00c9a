"""What an Android package says of itself: its name, version, kind of build, and who signed it.

Read from the binary manifest and the signing block (schemes v3, v2, v1). Android verifies the
signature when it installs the package; here certificates are only compared.
"""

from __future__ import annotations

import hashlib
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, pkcs7

_MANIFEST = "AndroidManifest.xml"
_MAGIC = b"APK Sig Block 42"
_SCHEMES = (0xF05368C0, 0x7109871A)  # v3, v2
_END_OF_ARCHIVE = b"PK\5\6"

_STRING_POOL, _RESOURCE_MAP, _START_ELEMENT = 0x0001, 0x0180, 0x0102
_UTF8 = 1 << 8
_TYPE_STRING = 0x03
# Android's numbers of the attributes that are wanted; names may have been stripped.
_WANTED = {
    0x0101021B: "versionCode",
    0x0101021C: "versionName",
    0x0101000B: "sharedUserId",
    0x0101000F: "debuggable",
}

type Value = str | int


class ApkError(Exception):
    """The file is no package that can be read, and why."""


@dataclass(frozen=True, slots=True)
class Apk:
    """`signer` is the SHA-256 of the signing certificate in hex digits, `signature` what Android
    prints of it. `abis` are the processors that it has code for; none means all."""

    path: Path
    package: str
    version_code: int
    version_name: str
    debuggable: bool
    shared_user: str
    signer: str
    abis: frozenset[str] = frozenset()
    signature: str = ""


def read_apk(path: Path) -> Apk:
    """Raises ApkError, OSError."""
    data = path.read_bytes()
    try:
        with zipfile.ZipFile(path) as archive:
            elements = dict(_elements(archive.read(_MANIFEST)))
            certificate = _block_signer(data) or _jar_signer(archive)
            names = [name.split("/") for name in archive.namelist()]
    except (zipfile.BadZipFile, KeyError, struct.error, IndexError, ValueError) as problem:
        raise ApkError(f"{path} is no Android package ({problem}): download it again") from None
    manifest = elements.get("manifest", {})
    if "package" not in manifest:
        raise ApkError(f"{path} has no package name in its manifest: download it again")
    if certificate is None:
        raise ApkError(f"{path} is not signed: download it again")
    return Apk(
        path=path,
        package=str(manifest["package"]),
        version_code=int(manifest.get("versionCode", 0)),
        version_name=str(manifest.get("versionName", "")),
        debuggable=bool(elements.get("application", {}).get("debuggable", False)),
        shared_user=str(manifest.get("sharedUserId", "")),
        signer=hashlib.sha256(certificate).hexdigest(),
        signature=java_hash(certificate),
        abis=frozenset(parts[1] for parts in names if parts[0] == "lib" and len(parts) == 3),
    )


def _elements(data: bytes) -> Iterator[tuple[str, dict[str, Value]]]:
    """Elements of a binary XML file with their attributes, the last of each name counting."""
    strings: list[str] = []
    numbers: tuple[int, ...] = ()
    place = 8
    while place + 8 <= len(data):
        kind, _, size = struct.unpack_from("<HHI", data, place)
        if size < 8:
            raise ValueError("broken manifest")
        if kind == _STRING_POOL:
            strings = _strings(data[place : place + size])
        elif kind == _RESOURCE_MAP:
            numbers = struct.unpack_from(f"<{(size - 8) // 4}I", data, place + 8)
        elif kind == _START_ELEMENT:
            yield _element(data[place : place + size], strings, numbers)
        place += size


def _element(
    chunk: bytes, strings: list[str], numbers: tuple[int, ...]
) -> tuple[str, dict[str, Value]]:
    (header,) = struct.unpack_from("<H", chunk, 2)
    _, name, start, size, count = struct.unpack_from("<IIHHH", chunk, header)
    attributes: dict[str, Value] = {}
    for place in range(count):
        at = header + start + place * size
        _, key, raw, _, _, kind, value = struct.unpack_from("<IIIHBBI", chunk, at)
        number = numbers[key] if key < len(numbers) else 0
        word = _WANTED.get(number) or strings[key]
        text = strings[value] if kind == _TYPE_STRING else ""
        attributes[word] = text or (strings[raw] if raw < len(strings) else value)
    return strings[name], attributes


def _strings(chunk: bytes) -> list[str]:
    (header,) = struct.unpack_from("<H", chunk, 2)
    count, _, flags, start, _ = struct.unpack_from("<IIIII", chunk, 8)
    offsets = struct.unpack_from(f"<{count}I", chunk, header)
    read = _utf8 if flags & _UTF8 else _utf16
    return [read(chunk, start + offset) for offset in offsets]


def _utf16(chunk: bytes, at: int) -> str:
    (length,) = struct.unpack_from("<H", chunk, at)
    at += 2
    if length & 0x8000:
        length = (length & 0x7FFF) << 16 | struct.unpack_from("<H", chunk, at)[0]
        at += 2
    return chunk[at : at + 2 * length].decode("utf-16-le", errors="replace")


def _utf8(chunk: bytes, at: int) -> str:
    """Its length stands there twice, in characters and in bytes."""
    for _ in range(2):
        length = chunk[at]
        at += 1
        if length & 0x80:
            length = (length & 0x7F) << 8 | chunk[at]
            at += 1
    return chunk[at : at + length].decode(errors="replace")


def java_hash(data: bytes) -> str:
    """Java's Arrays.hashCode in hex digits: how `dumpsys package` tells signers apart."""
    value = 1
    for byte in data:
        value = (31 * value + (byte ^ 0x80) - 0x80) & 0xFFFFFFFF
    return f"{value:x}"


def _block_signer(data: bytes) -> bytes | None:
    """The first signer's certificate out of the signing block, where there is one."""
    end = data.rindex(_END_OF_ARCHIVE)
    (directory,) = struct.unpack_from("<I", data, end + 16)
    if data[directory - 16 : directory] != _MAGIC:
        return None
    (size,) = struct.unpack_from("<Q", data, directory - 24)
    at, stop = directory - size, directory - 24
    blocks: dict[int, bytes] = {}
    while at < stop:
        length, identity = struct.unpack_from("<QI", data, at)
        blocks[identity] = data[at + 12 : at + 8 + length]
        at += 8 + length
    for scheme in _SCHEMES:
        if scheme in blocks:
            signers = _prefixed(blocks[scheme])[0]
            signed = _prefixed(_prefixed(signers)[0])[0]
            certificates = _prefixed(signed)[1]
            return _prefixed(certificates)[0]
    return None


def _prefixed(data: bytes) -> list[bytes]:
    """Parts, each behind its length; what follows the last whole one is not looked at."""
    parts, at = [], 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        if at + 4 + length > len(data):
            break
        parts.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return parts


def _jar_signer(archive: zipfile.ZipFile) -> bytes | None:
    """The certificate of scheme v1, which older packages have alone."""
    for name in archive.namelist():
        if name.startswith("META-INF/") and name.endswith((".RSA", ".DSA", ".EC")):
            for certificate in pkcs7.load_der_pkcs7_certificates(archive.read(name)):
                return certificate.public_bytes(Encoding.DER)
    return None
