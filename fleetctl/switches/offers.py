"""What an ssh server offers, for the moment when nobody can agree with it on anything."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

_KINDS = {
    "kex algorithm": ("key exchange", 0, "`ip ssh server algorithm kex`", "`key-exchange`"),
    "host key": ("host keys", 1, "`crypto key generate rsa modulus 2048`", "`hostkey server`"),
    "ciphers": ("ciphers", 2, "`ip ssh server algorithm encryption`", "`cipher`"),
    "macs": ("MACs", 4, "`ip ssh server algorithm mac`", "`mac`"),
}
"""By paramiko's word for what it could not agree on: ours, its place in the server's lists (of the
client's direction), and how IOS and EOS (below `management ssh`) are told otherwise."""

_LISTS = 10
_KEXINIT = 20
_MOST_BYTES = 35_000


def disagreement(text: str, address: str, port: int, seconds: float) -> tuple[str, str]:
    """What happened and what to do, by paramiko's `text` and what the server says it offers."""
    found = next((kind for word, kind in _KINDS.items() if word in text), None)
    if found is None:
        return f"its ssh server and ours have nothing in common: {text}", "update its software"
    kind, place, ios, eos = found
    try:
        names = ", ".join(offered(address, port, seconds)[place])
    except (OSError, ValueError, struct.error):
        names = "what, it does not tell"
    return (
        f"its ssh server and ours have no {kind} in common; it offers {names}",
        f"let it offer newer ones: {ios} on IOS, {eos} below `management ssh` on EOS",
    )


def offered(address: str, port: int, seconds: float) -> list[list[str]]:
    """The name lists of a server's KEXINIT (RFC 4253, 7.1). Raises OSError, ValueError."""
    with (
        socket.create_connection((address, port), timeout=seconds) as connection,
        connection.makefile("rb") as stream,
    ):
        for _ in range(50):  # lines of a banner may come first
            if stream.readline(256).startswith(b"SSH-"):
                break
        connection.sendall(b"SSH-2.0-phonerack\r\n")
        length, padding = struct.unpack(">IB", stream.read(5))
        if length > _MOST_BYTES:
            raise ValueError("no ssh packet")
        payload = stream.read(length - 1)[: length - 1 - padding]
    if not payload or payload[0] != _KEXINIT:
        raise ValueError("no key exchange")
    return list(_lists(payload[17:]))


def _lists(data: bytes) -> Iterator[list[str]]:
    for _ in range(_LISTS):
        (length,) = struct.unpack(">I", data[:4])
        yield [name for name in data[4 : 4 + length].decode("ascii").split(",") if name]
        data = data[4 + length :]
