"""adb's transport: messages of 24 bytes and a body, and the keys by which computers are known.

As of AOSP's packages/modules/adb/protocol.txt. Version 0x01000001: bodies bear no checksum.
"""

from __future__ import annotations

import asyncio
import base64
import struct
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa, utils

VERSION = 0x01000001
MAX_PAYLOAD = 1 << 20
TOKEN_BYTES = 20

CNXN, AUTH, OPEN, OKAY, WRTE, CLSE = b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"WRTE", b"CLSE"
AUTH_TOKEN, AUTH_SIGNATURE, AUTH_PUBLIC_KEY = 1, 2, 3

_HEAD = struct.Struct("<4sIIIII")
_MODULUS_BYTES = 256


class ProtocolError(Exception):
    """What arrived is no adb message."""


@dataclass(frozen=True, slots=True)
class Message:
    command: bytes
    first: int = 0
    second: int = 0
    body: bytes = b""

    def pack(self) -> bytes:
        code = int.from_bytes(self.command, "little")
        checksum = sum(self.body) & 0xFFFFFFFF if self.command in (CNXN, AUTH) else 0
        return (
            _HEAD.pack(
                self.command,
                self.first,
                self.second,
                len(self.body),
                checksum,
                code ^ 0xFFFFFFFF,
            )
            + self.body
        )


async def read_message(reader: asyncio.StreamReader) -> Message:
    """The next message. Raises ProtocolError, IncompleteReadError at the end of the stream."""
    head = await reader.readexactly(_HEAD.size)
    command, first, second, size, _, magic = _HEAD.unpack(head)
    if int.from_bytes(command, "little") ^ magic != 0xFFFFFFFF or size > MAX_PAYLOAD:
        raise ProtocolError(f"no adb message: {head.hex()}")
    return Message(command, first, second, await reader.readexactly(size))


def accepts(key: str, token: bytes, signature: bytes) -> bool:
    """Whether `signature` is what the computer with this public key makes of `token`."""
    try:
        public_key(key).verify(
            signature,
            token,
            padding.PKCS1v15(),
            utils.Prehashed(hashes.SHA1()),  # noqa: S303
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def public_key(line: str) -> rsa.RSAPublicKey:
    """The key of a line as adb keeps it in adbkey.pub: Android's form, in base64, and a comment.

    Raises ValueError.
    """
    raw = base64.b64decode(line.split()[0])
    words, _ = struct.unpack_from("<II", raw)
    if words * 4 != _MODULUS_BYTES:
        raise ValueError(f"a key of {words * 32} bits; adb's have 2048")
    modulus = int.from_bytes(raw[8 : 8 + _MODULUS_BYTES], "little")
    exponent = struct.unpack_from("<I", raw, 8 + 2 * _MODULUS_BYTES)[0]
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()
