"""The only code that runs `adb`: a server of the rack's own, and the phones that it sees.

The server listens on a socket in the rack's folder, which only its owner may enter, uses a key of
the rack's own, and ends with the session. A second session of the same rack is refused.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, get_args

from fleetctl.errors import ExitCode, FleetError
from fleetctl.rack import RackPaths

SERVER_WAIT_SECONDS = 20.0
COMMAND_LIMIT_SECONDS = 30.0
TRANSFER_LIMIT_SECONDS = 600.0
CONNECT_LIMIT_SECONDS = 10.0
TCP_PORT = 5555
"""Where a phone's adb daemon listens after `adb tcpip`."""

END_WAIT_SECONDS = 5.0

_SOCKET_PATH_LIMIT = 100
_PID_FILE = "server.pid"

type LinkState = Literal["device", "unauthorized", "offline", "no permissions", "other"]


class AdbError(FleetError):
    """adb itself cannot work: not installed, its server does not start, no such phone."""


class AdbHeld(AdbError):
    """Another session of this rack uses adb."""

    exit_code: ClassVar[ExitCode] = ExitCode.HELD


class AdbLost(AdbError):
    """A phone that adb no longer reaches, or that did not finish in time."""


@dataclass(frozen=True, slots=True)
class Link:
    """A phone as adb lists it. `name` is adb's own for it, `place` where it is plugged in."""

    name: str
    state: LinkState
    place: str


@dataclass(frozen=True, slots=True)
class Said:
    """What a command left behind."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def complaint(self) -> str:
        """What went wrong, in its own words; adb tells of some errors on standard output."""
        lines = [line.strip() for line in f"{self.stdout}\n{self.stderr}".splitlines()]
        wrong = [line for line in lines if "error" in line.lower()]
        said = wrong or [line for line in lines if line]
        return said[-1] if said else f"exit code {self.exit_code}"


class Adb:
    """A running server. Made by `session`."""

    def __init__(self, program: str, home: Path, socket: Path) -> None:
        self._program, self._home, self.socket = program, home, socket
        self.endpoints: list[str] = []
        """Phones that are reached by TCP from the start, in their order."""

    @property
    def environment(self) -> dict[str, str]:
        """For adb's own processes: its key in the rack's folder, and no looking around."""
        foreign = ("ADB_", "ANDROID_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        return kept | {"HOME": str(self._home), "ADB_MDNS": "0", "ADB_MDNS_AUTO_CONNECT": "0"}

    async def links(self) -> list[Link]:
        """All phones that adb sees, in the order of the sockets that they are plugged into."""
        said = await self.run("devices", "-l")
        found = [parse_link(line) for line in said.stdout.splitlines()[1:] if line.strip()]

        def order(link: Link) -> tuple[object, ...]:
            known = link.name in self.endpoints
            place = self.endpoints.index(link.name) if known else -1
            return (place, _natural(link.place), _natural(link.name))

        return sorted(found, key=order)

    async def connect(self, endpoint: str) -> str:
        """Reach a phone by TCP, `ADDRESS:PORT`. Returns what adb said; look at `links` after it."""
        said = await self.run("connect", endpoint, limit_seconds=CONNECT_LIMIT_SECONDS)
        return said.stdout.strip()

    async def disconnect(self, endpoint: str) -> None:
        await self.run("disconnect", endpoint)

    def phone(self, link: str) -> AdbPhone:
        return AdbPhone(self, link)

    async def run(self, *words: str, limit_seconds: float = COMMAND_LIMIT_SECONDS) -> Said:
        """Run the client. Raises AdbLost when it has not ended in time."""
        process = await asyncio.create_subprocess_exec(
            self._program,
            *("-L", f"localfilesystem:{self.socket}"),
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limit_seconds):
                out, err = await process.communicate()
        except TimeoutError:
            what = f"`adb {words[2]}` on {words[1]}" if words[0] == "-s" else f"`adb {words[0]}`"
            raise AdbLost(
                f"{what} did not finish within {limit_seconds:g} s; look at the phone's cable and "
                "screen"
            ) from None
        finally:
            await _kill(process)
        code = process.returncode or 0
        return Said(code, out.decode(errors="replace"), err.decode(errors="replace"))


async def _kill(process: asyncio.subprocess.Process) -> None:
    """End a process that has not ended. Not by its own `kill`, which takes its exit code away."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


class AdbPhone:
    """One phone by adb. Every call may raise AdbLost."""

    def __init__(self, adb: Adb, link: str) -> None:
        self._adb, self.link = adb, link

    async def _run(self, *words: str, limit_seconds: float) -> Said:
        said = await self._adb.run("-s", self.link, *words, limit_seconds=limit_seconds)
        if not said.ok and (gone := _GONE.search(said.stderr)):
            raise AdbLost(f"{gone[0].strip()}: the phone has left; look at its cable")
        return said

    async def shell(self, command: str, *, limit_seconds: float = COMMAND_LIMIT_SECONDS) -> Said:
        """Run a command line in the phone's shell, as adb's user."""
        return await self._run("shell", "-n", "-T", command, limit_seconds=limit_seconds)

    async def push(self, local: Iterable[Path], remote: str) -> Said:
        """Copy files into a folder of the phone."""
        files = [str(path) for path in local]
        return await self._run("push", *files, remote, limit_seconds=TRANSFER_LIMIT_SECONDS)

    async def install(self, apk: Path) -> Said:
        """Install a package, or a newer version of it."""
        words = ("install", "-r", "-g", str(apk))
        return await self._run(*words, limit_seconds=TRANSFER_LIMIT_SECONDS)

    @asynccontextmanager
    async def forwarded(self, port: int) -> AsyncIterator[int]:
        """A port of this machine's loopback that leads to a port of the phone's."""
        limit = COMMAND_LIMIT_SECONDS
        said = await self._run("forward", "tcp:0", f"tcp:{port}", limit_seconds=limit)
        if not said.ok:
            raise AdbLost(f"adb cannot forward to port {port}: {said.complaint}")
        local = int(said.stdout)
        try:
            yield local
        finally:
            with suppress(AdbError):
                await self._run("forward", "--remove", f"tcp:{local}", limit_seconds=limit)

    async def listen_on_network(self, port: int = TCP_PORT) -> Said:
        """Have the phone's adb daemon answer on the network too, until it reboots."""
        return await self._run("tcpip", str(port), limit_seconds=COMMAND_LIMIT_SECONDS)

    async def listen_on_usb(self) -> Said:
        """Have the phone's adb daemon answer on USB only."""
        return await self._run("usb", limit_seconds=COMMAND_LIMIT_SECONDS)

    async def until_device(self, limit_seconds: float = COMMAND_LIMIT_SECONDS) -> None:
        """Wait until the phone answers adb."""
        await self._run("wait-for-any-device", limit_seconds=limit_seconds)


_GONE = re.compile(
    r"device '[^']*' not found|device offline|no devices/emulators found|device unauthorized|closed"
)


def parse_link(line: str) -> Link:
    """A line of `adb devices -l`."""
    name, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    known: tuple[LinkState, ...] = get_args(LinkState.__value__)
    state: LinkState = next((word for word in known if rest.startswith(word)), "other")
    place = re.search(r"\busb:(\S+)", rest)
    return Link(name, state, place[1] if place else "")


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key by which `1-10` comes after `1-9`."""
    parts = re.findall(r"\d+|\D+", text)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


@asynccontextmanager
async def session(paths: RackPaths) -> AsyncIterator[Adb]:
    """A server for the phones of this rack, as long as the block lasts.

    Raises AdbError where adb is missing or its server does not come up, AdbHeld where another
    session of the rack is going on.
    """
    program = shutil.which("adb")
    if program is None:
        raise AdbError(
            "`adb` is not installed: run `apt-get install adb` (Debian), or put Google's "
            "platform-tools on your PATH"
        )
    paths.adb.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (paths.adb / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AdbHeld(
                f"another fleetctl uses adb on rack `{paths.rack}`: wait for its end"
            ) from None
        socket = paths.adb / "socket"
        if len(str(socket)) > _SOCKET_PATH_LIMIT:
            raise AdbError(
                f"{socket} is too long for a socket's name: use a shorter PHONERACK_HOME"
            )
        adb = Adb(program, paths.adb, socket)
        _end_leftover(paths.adb / _PID_FILE, socket)
        server = await _start(adb, paths.adb)
        try:
            await _connect_endpoints(adb, paths.adb_endpoints)
            yield adb
        finally:
            await asyncio.shield(_end(adb, server))


def _end_leftover(pid_file: Path, socket: Path) -> None:
    """End the server of a session that was killed: it would keep the phones to itself."""
    with suppress(OSError, ValueError):
        pid = int(pid_file.read_text())
        if str(socket) in Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"):
            os.kill(pid, signal.SIGKILL)


async def _end(adb: Adb, server: asyncio.subprocess.Process) -> None:
    with suppress(AdbError):
        await adb.run("kill-server", limit_seconds=END_WAIT_SECONDS)
    await _kill(server)
    adb.socket.unlink(missing_ok=True)


async def _start(adb: Adb, home: Path) -> asyncio.subprocess.Process:
    """Start the server, and wait until it answers."""
    adb.socket.unlink(missing_ok=True)
    log = home / "server.log"
    with log.open("wb") as output:
        server = await asyncio.create_subprocess_exec(
            adb._program,
            *("-L", f"localfilesystem:{adb.socket}", "nodaemon", "server"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=adb.environment,
            start_new_session=True,
        )
    (home / _PID_FILE).write_text(str(server.pid))
    deadline = asyncio.get_running_loop().time() + SERVER_WAIT_SECONDS
    while server.returncode is None and asyncio.get_running_loop().time() < deadline:
        # The client would start a server of its own where none listens yet.
        if adb.socket.exists() and (await adb.run("version")).ok:
            return server
        await asyncio.sleep(0.05)
    await _kill(server)
    said = log.read_text(errors="replace").strip().splitlines()[-3:]
    raise AdbError(f"adb's server does not start; {log} ends: {' / '.join(said)}")


async def _connect_endpoints(adb: Adb, endpoints: Path) -> None:
    """Reach what adb does not find by itself; a phone that is not there is none."""
    adb.endpoints = endpoints.read_text().split() if endpoints.exists() else []

    async def reach(endpoint: str) -> None:
        with suppress(AdbLost):
            await adb.connect(endpoint)

    await asyncio.gather(*(reach(line) for line in adb.endpoints))
