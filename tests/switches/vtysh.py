"""FRR's vtysh, a real command line of Cisco's kind, to compare the stand-in with.

`python tests/switches/vtysh.py` records anew what it does with the keys below; for that Debian's
package `frr` must be installed. Its daemon runs in a folder of its own and listens nowhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

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


def is_installed() -> bool:
    return Path(VTYSH).exists() and Path(BGPD).exists()


@contextlib.contextmanager
def shell() -> Iterator[int]:
    """A terminal with vtysh in it, as a file descriptor."""
    folder = Path(tempfile.mkdtemp(prefix="vtysh-"))
    folder.chmod(0o755)
    try:
        sockets = folder / "vty"
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
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ["TERM"] = "dumb"
            os.execv(VTYSH, [VTYSH, "--vty_socket", str(sockets)])  # noqa: S606
        read(terminal)
        yield terminal
    finally:
        with contextlib.suppress(OSError):
            os.close(terminal)
            os.waitpid(pid, 0)
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((sockets / "pid").read_text()), 15)
        shutil.rmtree(folder, ignore_errors=True)


def read(terminal: int) -> str:
    """What it prints until it waits again: after a prompt, when nothing more comes."""
    text, quiet = "", 0.0
    until = time.monotonic() + 20
    while time.monotonic() < until and quiet < 0.4:
        if select.select([terminal], [], [], 0.1)[0]:
            text += os.read(terminal, 4096).decode()
            quiet = 0.0
        else:
            quiet += 0.1
    return text


def transcript() -> list[list[str]]:
    """Each of KEYS with what vtysh printed for it."""
    found = []
    with shell() as terminal:
        for keys in KEYS:
            os.write(terminal, keys.replace("\n", "\r").encode())
            found.append([keys, read(terminal)])
    return found


if __name__ == "__main__":
    RECORD.write_text(json.dumps(transcript(), indent=1) + "\n")
