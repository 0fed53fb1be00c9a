"""Start and end a rack's daemon; it is known by its pid and the moment at which that started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fleetctl.rack.files import write_atomic
from standin.daemon.control import NoDaemon, ask
from standin.errors import StandinError

PID_FILE = "daemon.json"
LOG = "daemon.log"
LOG_LIMIT_BYTES = 1_000_000
START_WAIT_SECONDS = 60.0
END_WAIT_SECONDS = 20.0
_POLL_SECONDS = 0.05


def ensure_running(folder: Path) -> bool:
    """Start the daemon of the rack whose stand-in folder is `folder`, unless it runs and answers.

    Returns whether it started one. Hold the rack (`standin.rig.exclusive`) around it.
    Raises StandinError with the end of its log when it does not come up.
    """
    if running_pid(folder):
        with suppress(NoDaemon):
            ask(folder, "status")
            return False
        stop(folder)
    with only_one(folder.parent.name):
        pass  # one whose pid is not known would not let another come up
    log = folder / LOG
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(log.with_suffix(".log.1"))
    with log.open("ab") as output:
        process = subprocess.Popen(
            (sys.executable, "-m", "standin.daemon", str(folder.parent.resolve())),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env={**os.environ, "PHONERACK_HOME": str(folder.parent.parent.resolve())},
            start_new_session=True,
        )
    _write_pid(folder, process.pid)
    deadline = time.monotonic() + START_WAIT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(NoDaemon):
            ask(folder, "status")
            return True
        time.sleep(_POLL_SECONDS)
    stop(folder)
    said = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    raise StandinError(f"the stand-in's background process did not come up; its log ends:\n{said}")


@contextmanager
def only_one(rack: str) -> Iterator[None]:
    """Refuse to be the second daemon of a rack on this machine."""
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            # An abstract name: it is this machine's, and goes with the process.
            lock.bind(f"\0phonerack-standin-daemon-{rack}")
        except OSError:
            raise StandinError(f"rack `{rack}` has its background process already") from None
        yield


def stop(folder: Path) -> None:
    """End the daemon, if it runs: TERM, and KILL where that is not enough."""
    pid = running_pid(folder)
    for number, wait in ((signal.SIGTERM, END_WAIT_SECONDS), (signal.SIGKILL, END_WAIT_SECONDS)):
        deadline = time.monotonic() + wait
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        while (pid := running_pid(folder)) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    if pid:
        raise StandinError(f"the stand-in's background process {pid} cannot be ended")
    (folder / PID_FILE).unlink(missing_ok=True)


def running_pid(folder: Path) -> int | None:
    """The daemon's pid if it runs; a pid that has gone to another process does not count."""
    try:
        known = json.loads((folder / PID_FILE).read_text())
    except (OSError, ValueError):
        return None
    pid: int = known["pid"]
    return pid if known["started_ticks"] == started_ticks(pid) else None


def started_ticks(pid: int) -> int | None:
    """When a process started, in ticks since boot; None for one that has ended.

    One that was killed is shown as dead when its first thread is; only with its last one go its
    sockets, and whoever takes its place is refused until then.
    """
    try:
        # The name in brackets may hold anything, blanks too.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, threads, start = fields[0], int(fields[17]), int(fields[19])
    return None if state in "ZX" and threads <= 1 else start


def _write_pid(folder: Path, pid: int) -> None:
    document = {"version": 1, "pid": pid, "started_ticks": started_ticks(pid)}
    write_atomic(folder / PID_FILE, json.dumps(document) + "\n", mode=0o600)
