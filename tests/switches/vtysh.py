"""FRR's vtysh, a real command line of Cisco's kind, behind ssh, to compare the stand-in with.

`python tests/switches/vtysh.py` records anew what it does with the keys below; for that Debian's
package `frr` must be installed (`tools/setup dev`). Its daemon runs in a folder of its own and
listens nowhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import paramiko
from lab import PASSWORD
from ssh_server import SshServer

VTYSH = "/usr/bin/vtysh"
BGPD = "/usr/lib/frr/bgpd"
RECORD = Path(__file__).with_name("vtysh.json")
HOSTNAME = "switch1"

# Only what both kinds of command line know.
KEYS = (
    *("\n", "foo\n", "!remark\n", "conf t\n", f"hostname {HOSTNAME}\n", "\n", "foo bar\n"),
    *("interface lo1\n", "description phone 12?", "\n", "descr\x08\x08\x08\x08\x08exit\n"),
    *("interface lo1\n", "interface lo2\n", "  description   x y\n", "foo\n", "\x03", "des\x03"),
    *("exit\n", "do foo\n", "interface lo1\n", "end\n", "configure terminal\n", "int lo1\n"),
    *("no description\n", "exit\n", "exit\n", "\x7f", "con\x7f\x7f\x7f\n"),
)


@contextlib.contextmanager
def served() -> Iterator[SshServer]:
    """An ssh server behind which every session is a vtysh of one daemon."""
    with _daemon() as sockets:

        async def talk(process: asyncssh.SSHServerProcess[Any]) -> None:
            ours, theirs = pty.openpty()
            columns, rows, *_ = process.term_size
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            shell = await asyncio.create_subprocess_exec(
                *("setsid", "--ctty", VTYSH, "--vty_socket", str(sockets)),
                **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
                env={"TERM": "dumb", "PATH": os.environ["PATH"]},
            )
            os.close(theirs)
            try:
                await process.redirect(stdin=ours, stdout=os.dup(ours))
                await shell.wait()
                process.exit(0)
            finally:
                if shell.returncode is None:
                    shell.kill()
                    await shell.wait()
                process.close()
                await process.wait_closed()

        server = SshServer(talk, encoding=None)
        try:
            yield server
        finally:
            server.close()


@contextlib.contextmanager
def _daemon() -> Iterator[Path]:
    """A daemon that knows interfaces and hostnames; the folder of its sockets."""
    folder = Path(tempfile.mkdtemp(prefix="vtysh-"))
    folder.chmod(0o755)
    sockets = folder / "vty"
    try:
        sockets.mkdir()
        for path in (sockets, folder / "bgpd.conf"):
            path.touch()
            shutil.chown(path, "frr", "frrvty")
        subprocess.run(
            [
                *(BGPD, "-d", "-Z", "-p", "0", "-P", "0", "--vty_socket", str(sockets)),
                *("-i", str(sockets / "pid"), "-f", str(folder / "bgpd.conf")),
            ],
            check=True,
        )
        yield sockets
    finally:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((sockets / "pid").read_text()), 15)
        shutil.rmtree(folder, ignore_errors=True)


def read(terminal: paramiko.Channel) -> str:
    """What it prints until it waits again: after a prompt, when nothing more comes."""
    text = ""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        terminal.settimeout(0.4 if text else 5.0)
        try:
            text += terminal.recv(4096).decode()
        except TimeoutError:
            break
    return text


def transcript() -> list[list[str]]:
    """Each of KEYS with what vtysh printed for it."""
    found = []
    with served() as server, paramiko.Transport(("127.0.0.1", server.port)) as transport:
        transport.connect(username="admin", password=PASSWORD)
        terminal = transport.open_session()
        terminal.get_pty("dumb")
        terminal.invoke_shell()
        read(terminal)
        for keys in KEYS:
            terminal.sendall(keys.replace("\n", "\r").encode())
            found.append([keys, read(terminal)])
    return found


if __name__ == "__main__":
    RECORD.write_text(json.dumps(transcript(), indent=1) + "\n")
