"""How a run of ansible-playbook is ended before its time, here and on the phones.

Ansible's workers have sessions of their own, and a command on a phone runs on when its ssh is gone.
The masters of the run's connections tell by which of this machine's ports it was connected; sshd
writes those into the environment of what it starts, so exactly that can be found on the phones.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleetctl.rack import Rack, RackPaths

GRACE_SECONDS = 4.0
SWEEP_SECONDS = 15.0
_LISTED_CONNECTED = "01"
_SHELLS = "sh|bash|dash|zsh|fish|python*|env"

# Of processes whose session one of these connections began by a shell. TERM lets apt and dpkg end
# well; what is started by `setsid` meanwhile, such as a supervisor of services, is left alone.
_SWEEP = """\
marked() {{
    for place in /proc/[0-9]*; do
        grep -qzE '^SSH_CONNECTION=[^ ]+ ({ports}) ' "$place/environ" 2>/dev/null || continue
        set -- $(sed 's/.*) //' "$place/stat" 2>/dev/null)
        [ "${{4-}}" != "$own" ] || continue
        read -r leader <"/proc/${{4-0}}/comm" || leader=sh
        case $leader in {shells}) echo "${{place#/proc/}}" ;; esac
    done 2>/dev/null
}}
own=$(sed 's/.*) //' /proc/$$/stat | cut -d' ' -f4)
round=0
while [ $round -lt 10 ]; do
    found=$(marked)
    [ -n "$found" ] || exit 0
    if [ $round -lt 5 ]; then kill -TERM $found; else kill -KILL $found; fi 2>/dev/null
    round=$((round + 1))
    sleep 0.5
done
echo "still there: $found" >&2
exit 1
"""


@dataclass(frozen=True, slots=True)
class Link:
    """A connection of this machine's: its own port, and the address that it leads to."""

    port: int
    address: str


def links(sockets: Path) -> list[Link]:
    """The connections of the ssh masters whose control sockets lie in a folder."""
    inodes = {inode for pid in _masters(sockets) for inode in _sockets_of(pid)}
    found = []
    with suppress(OSError):
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and fields[3] == _LISTED_CONNECTED:
                found.append(_link(fields[1], fields[2]))
    return found


class Ending:
    """Ends all processes below this one and keeps what is needed to sweep the phones.

    Ansible is asked first and has some seconds; `go_on` is called meanwhile, and never waits.
    """

    def __init__(self, sockets: Path) -> None:
        self._sockets = sockets
        self.links = links(sockets)
        self._tree = below(os.getpid())
        self._until = time.monotonic() + GRACE_SECONDS
        _signal(self._tree, signal.SIGINT)

    def go_on(self) -> None:
        if time.monotonic() > self._until:
            self.finish()

    def finish(self) -> None:
        """No more grace."""
        _signal({*filter(lives, self._tree), *below(os.getpid())}, signal.SIGKILL)


def close_masters(sockets: Path) -> None:
    """Have the run's ssh masters end, so that none outlives the run."""
    for socket in sockets.glob("*"):
        subprocess.run(
            ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "-F", "/dev/null", "nobody"],
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
    _signal(_masters(sockets), signal.SIGKILL)


def sweep(rack: Rack, paths: RackPaths, connections: Iterable[Link]) -> dict[str, str]:
    """End what connections of a run that was ended have left on phones.

    Returns why that is not certain, by phone.
    """
    names = {phone.address: name for name, phone in rack.phones.items()}
    ports: dict[str, list[int]] = {}
    for link in connections:
        if link.address in names:
            ports.setdefault(names[link.address], []).append(link.port)
    return asyncio.run(_sweep(rack, paths, ports)) if ports else {}


async def _sweep(rack: Rack, paths: RackPaths, ports: Mapping[str, list[int]]) -> dict[str, str]:
    from fleetctl.remote import Fleet

    async with Fleet(rack, paths) as fleet:
        results = await asyncio.gather(
            *(
                fleet.run_on(name, sweep_line(mine), timeout_seconds=SWEEP_SECONDS)
                for name, mine in ports.items()
            )
        )
    return {
        name: result.failure(name)
        for name, result in zip(ports, results, strict=True)
        if not result.ok
    }


def sweep_line(ports: Iterable[int]) -> str:
    """The command for a phone's shell."""
    text = _SWEEP.format(ports="|".join(map(str, ports)), shells=_SHELLS)
    return f"exec sh -c {shlex.quote(text)}"


def _link(local: str, remote: str) -> Link:
    """From the form of /proc/net/tcp: an address as the machine's own integer, a port."""
    address, _, _ = remote.partition(":")
    octets = reversed(bytes.fromhex(address))
    return Link(int(local.partition(":")[2], 16), ".".join(map(str, octets)))


def _masters(sockets: Path) -> set[int]:
    """ssh gives its masters the title `ssh: SOCKET [mux]`."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            title = (place / "cmdline").read_bytes().decode(errors="replace")
            if title.startswith("ssh: ") and f" {sockets}/" in title and "[mux]" in title:
                found.add(int(place.name))
    return found


def _sockets_of(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = str(handle.readlink())
                if target.startswith("socket:["):
                    found.add(target[len("socket:[") : -1])
    return found


def below(pid: int) -> set[int]:
    """All descendants of a process."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(place.name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        fresh = [child for child in children.get(todo.pop(), []) if child not in found]
        found.update(fresh)
        todo += fresh
    return found


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)
