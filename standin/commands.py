"""Outside commands: run one, get its output, or an error that says what failed and why."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from standin.errors import StandinError

TIMEOUT_SECONDS = 120

type Command = tuple[str, ...]

_PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "ethtool": "ethtool",
    "ssh-keygen": "ssh",
}


class CommandError(StandinError):
    """A command that ended with a failure; `output` is what it said."""

    def __init__(self, command: Sequence[str], output: str) -> None:
        self.output = output
        super().__init__(f"`{' '.join(command)}` failed: {output or 'it said nothing'}")


def run(command: Sequence[str], given: str = "") -> str:
    """Run `command` and return its standard output. Raises CommandError when it fails.

    It reads `given` as its standard input.

    The command runs in a session of its own, so that Ctrl-C reaches only the caller, which then
    cleans up behind commands that have ended.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            start_new_session=True,
            input=given,
        )
    except FileNotFoundError:
        package = _PACKAGES.get(command[0], command[0])
        raise StandinError(
            f"`{command[0]}` is not installed: run `apt-get install {package}`"
        ) from None
    except subprocess.TimeoutExpired:
        raise CommandError(command, f"no end after {TIMEOUT_SECONDS} s") from None
    if done.returncode:
        raise CommandError(command, done.stderr.strip() or done.stdout.strip())
    return done.stdout


def require_host() -> None:
    """Refuse a host that cannot carry a rack: not root, or without the tools."""
    if os.geteuid() != 0:
        raise StandinError("a stand-in rack makes containers and network namespaces: run as root")
    for program, package in {"podman": "podman", **_PACKAGES}.items():
        if shutil.which(program) is None:
            raise StandinError(f"`{program}` is not installed: run `apt-get install {package}`")
