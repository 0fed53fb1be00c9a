"""Make one verified connection to one phone, or say why not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from fleetctl.remote import faults

PORT = 8022
USER = "phone"
CONNECT_LIMIT_SECONDS = 5.0
# An unanswered keepalive is noticed after (count + 1) intervals: 12 s.
KEEPALIVE_INTERVAL_SECONDS = 3
KEEPALIVE_COUNT = 3
# Here, ChaCha20 is a dozen calls into a library a packet, AES-GCM one; phones have AES in hardware.
_CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes256-ctr",
)
_ATTEMPTS = 2
_RETRY_PAUSE_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Identity:
    """What proves the two ends to each other; the certificate is used when it is there.

    Reading keys and known hosts costs as much as a handshake, and known hosts grow with the rack:
    both are read once for all phones, and again when a file has changed.
    """

    known_hosts: Path
    key: Path
    certificate: Path
    _read: dict[str, tuple[object, Any]] = field(default_factory=dict, compare=False, repr=False)

    def client_keys(self) -> list[asyncssh.SSHKeyPair]:
        """The operator's key, with its certificate once the authority has signed one."""
        return self._kept("keys", self._load_keys, self.key, self.certificate)

    def hosts(self) -> asyncssh.SSHKnownHosts | None:
        """The keys and authorities that are known; None where the file is missing."""
        return self._kept("hosts", self._load_hosts, self.known_hosts)

    def _kept[Value](self, what: str, load: Callable[[], Value], *files: Path) -> Value:
        now = [_mark(file) for file in files]
        if what not in self._read or self._read[what][0] != now:
            self._read[what] = (now, load())
        value: Value = self._read[what][1]
        return value

    def _load_keys(self) -> list[asyncssh.SSHKeyPair]:
        if not self.key.exists():
            return []
        if self.certificate.exists():
            # Both ways: a phone that is only enrolled knows the key, not yet the authority.
            return list(asyncssh.load_keypairs((str(self.key), str(self.certificate))))
        return list(asyncssh.load_keypairs(str(self.key)))

    def _load_hosts(self) -> asyncssh.SSHKnownHosts | None:
        if not self.known_hosts.exists():
            return None
        return asyncssh.read_known_hosts(str(self.known_hosts))


def _mark(file: Path) -> tuple[int, int, int] | None:
    """Changes when the file is replaced or written."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


async def connect(
    phone: str,
    address: str,
    identity: Identity,
    port: int = PORT,
    bound: AbstractAsyncContextManager[object] | None = None,
) -> asyncssh.SSHClientConnection:
    """Connect and verify the host key under the phone's name. Raises PhoneError.

    `bound` is held for the handshake only, which is this machine's work: who does not answer keeps
    nobody from trying the others.
    """
    _require_known(phone, identity)
    for attempt in range(_ATTEMPTS):
        try:
            return await _attempt(phone, address, port, identity, bound or nullcontext())
        except (ConnectionResetError, asyncssh.ConnectionLost) as error:
            # Lost before it was up: a dropped handshake under load. Worth one more try.
            if attempt == _ATTEMPTS - 1:
                raise faults.classify(phone, address, error) from error
            await asyncio.sleep(_RETRY_PAUSE_SECONDS)
        except (OSError, asyncssh.Error) as error:
            raise faults.classify(phone, address, error) from error
    raise AssertionError("unreachable: the last attempt returns or raises")


def _require_known(phone: str, identity: Identity) -> None:
    known = identity.hosts()
    if known is not None:
        keys, authorities, *_ = known.match(phone, "", None)
        if keys or authorities:
            return
    raise faults.not_enrolled(phone, str(identity.known_hosts))


async def _attempt(
    phone: str,
    address: str,
    port: int,
    identity: Identity,
    bound: AbstractAsyncContextManager[object],
) -> asyncssh.SSHClientConnection:
    """Silence costs one limit. Who has greeted is there: it gets another one to shake hands, from
    its turn on, since with many phones at once both sides' processors are what is short."""
    loop, sock = asyncio.get_running_loop(), None
    try:
        async with asyncio.timeout(CONNECT_LIMIT_SECONDS) as limit:
            sock = await _open_socket(address, port)
            await _await_greeting(sock, phone, address)
            limit.reschedule(None)
            async with bound:
                limit.reschedule(loop.time() + CONNECT_LIMIT_SECONDS)
                return await asyncssh.connect(
                    address,
                    port,
                    sock=sock,
                    username=USER,
                    host_key_alias=phone,
                    known_hosts=identity.hosts(),
                    client_keys=identity.client_keys(),
                    agent_path=None,
                    config=[],
                    encryption_algs=_CIPHERS,
                    keepalive_interval=KEEPALIVE_INTERVAL_SECONDS,
                    keepalive_count_max=KEEPALIVE_COUNT,
                )
    except TimeoutError:
        if sock is None:
            raise  # what a silent address is called, `classify` knows
        sock.close()
        raise faults.silent(phone, address, CONNECT_LIMIT_SECONDS) from None
    except BaseException:
        if sock is not None:
            sock.close()
        raise


async def _open_socket(address: str, port: int) -> socket.socket:
    """A connected socket; the kernel itself repeats a lost SYN twice within the limit."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


async def _await_greeting(sock: socket.socket, phone: str, address: str) -> None:
    """Look at sshd's first bytes without taking them: a penalised source gets one plain line."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(sock, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(sock)
    if sock.recv(64, socket.MSG_PEEK).startswith(faults.THROTTLE_LINES):
        raise faults.throttled(phone, address)
