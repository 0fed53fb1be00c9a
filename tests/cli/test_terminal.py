"""Ctrl-C in a real terminal: the command ends with 130, the terminal is as it was, and the second
run is fine."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetctl.errors import ExitCode

FLEETCTL = str(Path(sys.executable).with_name("fleetctl"))
ADDRESS = "127.78.9.11"
RACK = f"""
rack: lab
network: {{cidr: 127.78.9.0/24, medium: wifi, dhcp: ours, controller: 127.78.9.1}}
phones: [{ADDRESS}]
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIIAE7mdMbgPxOKsZt/8Dv+8mvRQccvWPJgyiAwwmL/h"
PATIENCE_SECONDS = 60.0


@pytest.fixture
def silent_phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A phone that takes connections and says nothing, as one that is frozen does."""
    file = tmp_path / "rack.yml"
    file.write_text(RACK)
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHONERACK_RACK", str(file))
    hosts = tmp_path / "home/lab/ssh/known_hosts"
    hosts.parent.mkdir(parents=True)
    hosts.write_text(f"phone001 {KEY}\n")
    with socket.create_server((ADDRESS, 8022)) as phone:
        phone.settimeout(PATIENCE_SECONDS)
        yield phone


def _take_terminal() -> None:
    """As a shell does; who runs the tests in the background has Ctrl-C ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, *words: str) -> None:
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [FLEETCTL, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        self.theirs = theirs
        self.said = b""

    def press(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def end(self) -> int:
        """Its exit code; all that it says is read meanwhile."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.said
            self._read()
        self._read()
        return self.process.returncode

    def _read(self) -> None:
        while select.select([self.ours], [], [], 0.05)[0]:
            self.said += os.read(self.ours, 65536)

    def as_before(self) -> bool:
        """Whether keys are shown and lines are edited again, and the cursor is there."""
        hidden, shown = self.said.rfind(b"\x1b[?25l"), self.said.rfind(b"\x1b[?25h")
        return termios.tcgetattr(self.theirs) == self.before and hidden <= shown

    def close(self) -> None:
        self.process.kill()
        os.close(self.ours)
        os.close(self.theirs)


@pytest.mark.parametrize(
    "words",
    [
        "launch -n 1 -- true",
        *(
            pytest.param(words, marks=pytest.mark.soak)
            for words in ("exec phone001 -- true", "check", "status")
        ),
    ],
)
def test_the_terminal_is_as_it_was_and_the_second_run_is_fine(
    silent_phone: socket.socket, words: str
) -> None:
    terminal = Terminal(*words.split())
    try:
        phone, _ = silent_phone.accept()  # it waits for the phone's first word now
        with phone:
            terminal.press(b"\x03")
            code = terminal.end()
        assert code == ExitCode.INTERRUPTED, terminal.said
        assert terminal.as_before(), terminal.said
    finally:
        terminal.close()

    silent_phone.close()  # the second run is refused at once, and says so
    again = subprocess.run([FLEETCTL, *words.split()], capture_output=True, text=True)
    refused = ExitCode.PREFLIGHT_REFUSED if words.startswith("launch") else ExitCode.NONE_REACHABLE
    assert again.returncode == refused, again.stderr
    assert "refuses port 8022" in again.stdout + again.stderr
