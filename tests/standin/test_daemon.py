"""A rack's background process: one at most, started again when it died, gone with the rack."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleetctl.rack import RackPaths, load_rack
from standin.daemon import process
from standin.daemon.control import NoDaemon, ask, inspect
from standin.daemon.desk import Desk
from standin.daemon.services import keep_running
from standin.errors import StandinError
from standin.fabric import plan_fabric
from standin.record import native_target, write_record
from standin.rig import Rig

RACK = """
rack: {name}
network: {{cidr: 10.151.9.0/24, medium: ethernet, controller: 10.151.9.1, services: 10.151.9.2}}
phones: [{{target: {target}, addresses: 10.151.9.11-12}}]
"""

EXIT = {"x86_64": 60, "aarch64": 93}
"""The system call that ends one thread."""


def make_rig(home: Path) -> Rig:
    """A rack that came up once, as far as its daemon can tell."""
    name = f"daemon-test-{os.getpid()}"
    file = home / "rack.yml"
    file.write_text(RACK.format(name=name, target=native_target()))
    rack, paths = load_rack(file), RackPaths(name, home)
    paths.ensure()
    rig = Rig(rack, paths, plan_fabric(rack))
    rig.folders.root.mkdir(mode=0o700)
    write_record(rig, file)
    return rig


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The stand-in folder of such a rack; its path is longer than a socket's name may be."""
    home = tmp_path / ("long" * 30)
    home.mkdir()
    monkeypatch.setenv("PHONERACK_HOME", str(home))
    folder = make_rig(home).folders.root
    yield folder
    if folder.exists():
        process.stop(folder)


def eventually(happens: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 120
    while not happens() and time.monotonic() < deadline:
        time.sleep(0.05)
    return happens()


def test_it_is_started_once_and_again_after_it_died(folder: Path) -> None:
    assert inspect(folder).pid is None
    assert process.ensure_running(folder)
    first = inspect(folder).pid
    assert first
    assert not process.ensure_running(folder)
    assert inspect(folder).pid == first == process.running_pid(folder)
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: process.running_pid(folder) is None)
    assert inspect(folder).pid is None
    assert process.ensure_running(folder)
    assert inspect(folder).pid not in (None, first)


def test_stopping_leaves_no_process_and_tells_who_asks(folder: Path) -> None:
    process.ensure_running(folder)
    pid = inspect(folder).pid
    assert pid
    process.stop(folder)
    assert process.started_ticks(pid) is None
    with pytest.raises(NoDaemon, match="standin up"):
        ask(folder, "status")
    process.stop(folder)


def test_it_ends_by_itself_when_the_racks_folder_is_removed(folder: Path) -> None:
    process.ensure_running(folder)
    pid = inspect(folder).pid
    assert pid
    shutil.rmtree(folder.parent)
    assert eventually(lambda: process.started_ticks(pid) is None)


def test_a_second_one_is_refused_whatever_its_pid_file_says(folder: Path) -> None:
    process.ensure_running(folder)
    pid = process.running_pid(folder)
    assert pid
    (folder / process.PID_FILE).unlink()
    (folder / "daemon.sock").unlink()
    with pytest.raises(StandinError, match="has its background process already"):
        process.ensure_running(folder)
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: process.started_ticks(pid) is None)


HALF_DEAD = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).syscall(EXIT, 0)
"""


@pytest.mark.skipif(platform.machine() not in EXIT, reason="the number of `exit` is not known")
def test_a_process_of_which_a_thread_is_left_has_not_ended() -> None:
    """As one that was killed may be for a moment, on a busy machine."""
    script = HALF_DEAD.replace("EXIT", str(EXIT[platform.machine()]))
    with subprocess.Popen([sys.executable, "-c", script]) as half_dead:
        stat = Path(f"/proc/{half_dead.pid}/stat")
        assert eventually(lambda: ") Z " in stat.read_text())
        assert process.started_ticks(half_dead.pid) is not None
        half_dead.kill()
        assert eventually(lambda: process.started_ticks(half_dead.pid) is None)


def test_the_pid_of_another_process_is_left_alone(folder: Path) -> None:
    (folder / process.PID_FILE).write_text(f'{{"pid": {os.getpid()}, "started_ticks": 1}}')
    assert process.running_pid(folder) is None
    process.stop(folder)


def test_an_order_that_nobody_knows_and_a_broken_line_are_answered(folder: Path) -> None:
    process.ensure_running(folder)
    with pytest.raises(StandinError, match="`melt` is not known"):
        ask(folder, "melt")
    with socket.socket(socket.AF_UNIX) as connection:
        descriptor = os.open(folder, os.O_RDONLY)
        connection.connect(f"/proc/self/fd/{descriptor}/daemon.sock")
        os.close(descriptor)
        connection.sendall(b"[]\n")
        assert b"problem" in connection.recv(1000)
    assert inspect(folder).pid


def test_a_service_that_fails_is_named_and_runs_again_later_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, waits, runs = Desk(make_rig(tmp_path)), [], 0
    conditions = []

    async def failing(_: Desk) -> None:
        nonlocal runs
        runs += 1
        if runs < 9:
            raise OSError("no such luck")

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        conditions.append((desk.services["unlucky"].state, desk.services["unlucky"].problem))

    monkeypatch.setattr("standin.daemon.services.asyncio.sleep", sleep)
    asyncio.run(keep_running("unlucky", failing, desk))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert set(conditions) == {("failed", "OSError: no such luck")}
    assert desk.services["unlucky"].state == "ended"
