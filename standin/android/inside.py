"""A running stand-in phone from the host: start programs in it as one of its users, use its ports.

What is started belongs to the phone's container in every way: its namespaces, its limits, its
freezer. Nothing is kept: a `Inside` is good until the phone goes down.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from standin.android.binder import FIRST_APP_UID, SHELL_UID
from standin.errors import StandinError

PREFIX = "/data/data/com.termux/files/usr"
HOME = "/data/data/com.termux/files/home"

SHELL_ENVIRONMENT = {
    "PATH": "/system/bin",
    "HOME": "/",
    "USER": "shell",
    "LOGNAME": "shell",
    "SHELL": "/system/bin/sh",
    "TMPDIR": "/data/local/tmp",
    "ANDROID_ROOT": "/system",
    "ANDROID_DATA": "/data",
}
APP_ENVIRONMENT = {
    "PREFIX": PREFIX,
    "HOME": HOME,
    "TMPDIR": f"{PREFIX}/tmp",  # noqa: S108
    "PATH": f"{PREFIX}/bin:/system/bin",
    "LD_PRELOAD": f"{PREFIX}/lib/libtermux-exec.so",
    "SHELL": f"{PREFIX}/bin/bash",
    "TERM": "xterm-256color",
    "ANDROID_ROOT": "/system",
    "ANDROID_DATA": "/data",
}

# The host's sh joins the phone's control groups; what it becomes enters the namespaces.
_JOIN = 'while [ "$1" != -- ]; do echo $$ >"$1" || exit 125; shift; done; shift; exec "$@"'


@dataclass(frozen=True, slots=True)
class Finished:
    code: int
    out: bytes
    err: bytes


class Inside:
    """The phone in whose namespaces the process `pid` of the host lives."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._groups = _control_groups(pid)

    def command(self, uid: int, words: Sequence[str]) -> tuple[str, ...]:
        """The host's command line that runs `words` in the phone as this user."""
        enter = (_nsenter(), f"--target={self.pid}", "-m", "-u", "-i", "-n", "-p", "--wd=/")
        who = (f"--setuid={uid}", f"--setgid={uid}")
        files = tuple(str(group / "cgroup.procs") for group in self._groups)
        return ("/bin/sh", "-c", _JOIN, "sh", *files, "--", *enter, *who, "--", *words)

    async def start(
        self, uid: int, words: Sequence[str], *, env: Mapping[str, str] | None = None, **pipes: Any
    ) -> asyncio.subprocess.Process:
        """Start a program, in a process group of its own. Raises OSError."""
        return await asyncio.create_subprocess_exec(
            *self.command(uid, words),
            env=dict(env if env is not None else environment(uid)),
            start_new_session=True,
            cwd="/",
            **pipes,
        )

    async def run(self, uid: int, words: Sequence[str], stdin: bytes = b"") -> Finished:
        """Run a program to its end."""
        pipe = asyncio.subprocess.PIPE
        process = await self.start(uid, words, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            out, err = await process.communicate(stdin)
        except asyncio.CancelledError:
            kill(process)
            raise
        return Finished(process.returncode or 0, out, err)

    async def connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port of the phone's own loopback. Raises OSError."""
        sock = await asyncio.to_thread(self._in_network, _socket)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        return await asyncio.open_connection(sock=sock)

    async def listener(self, port: int) -> socket.socket:
        """A socket that listens on this port of all addresses of the phone."""

        def bind() -> socket.socket:
            sock = _socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("0.0.0.0", port))  # noqa: S104 - the phone's own network
            sock.listen()
            return sock

        return await asyncio.to_thread(self._in_network, bind)

    def _in_network(self, make: Any) -> socket.socket:
        """What `make` returns, made by a thread that lives in the phone's network."""
        made: list[socket.socket | BaseException] = []

        def work() -> None:
            try:
                with Path(f"/proc/{self.pid}/ns/net").open() as namespace:
                    os.setns(namespace.fileno(), os.CLONE_NEWNET)
                made.append(make())
            except BaseException as problem:  # handed on to who asked
                made.append(problem)

        # A thread of its own, which takes the foreign network with it when it ends.
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if isinstance(made[0], BaseException):
            raise made[0]
        return made[0]

    @property
    def frozen(self) -> bool:
        """Whether the phone hangs: it answers nothing, and does not know."""
        for group in self._groups:
            with suppress(OSError):
                if "FROZEN" in (group / "freezer.state").read_text():
                    return True
            with suppress(OSError):
                if "frozen 1" in (group / "cgroup.events").read_text():
                    return True
        return False

    @property
    def alive(self) -> bool:
        return Path(f"/proc/{self.pid}").exists()


@cache
def _nsenter() -> str:
    """By its full path: what it starts brings a PATH of the phone's."""
    found = shutil.which("nsenter")
    if found is None:
        raise StandinError("`nsenter` is not installed: run `apt-get install util-linux`")
    return found


def environment(uid: int) -> dict[str, str]:
    """What Android gives a program of this user to begin with."""
    if uid >= FIRST_APP_UID:
        return dict(APP_ENVIRONMENT)
    return dict(SHELL_ENVIRONMENT)


def pipes(
    process: asyncio.subprocess.Process,
) -> tuple[asyncio.StreamWriter, asyncio.StreamReader, asyncio.StreamReader]:
    """Input, output and error of a program that was started with a pipe for each."""
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise ValueError("started without pipes")
    return process.stdin, process.stdout, process.stderr


def kill(process: asyncio.subprocess.Process, number: int = signal.SIGKILL) -> None:
    """Signal a program and all of its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _socket() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    return sock


def _control_groups(pid: int) -> list[Path]:
    """Folders of the control groups that hold a process, of v1, of v2, or of both."""
    found = []
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        names = controllers.removeprefix("name=").split(",") if controllers else [""]
        roots = [Path("/sys/fs/cgroup", name) for name in (controllers, *names, "unified")]
        for root in roots:
            folder = root / path.lstrip("/")
            if path != "/" and (folder / "cgroup.procs").exists():
                found.append(folder)
                break
    return found


__all__ = ["HOME", "PREFIX", "SHELL_UID", "Finished", "Inside", "environment", "kill", "pipes"]
