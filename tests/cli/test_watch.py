"""`fleetctl status --watch` in a terminal, ended by Ctrl-C."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

RACK = "rack: home\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-21]\n"


def test_watching_redraws_until_ctrl_c_and_leaves_the_terminal_usable(tmp_path: Path) -> None:
    rack = tmp_path / "rack.yml"
    rack.write_text(RACK)
    controller, terminal = pty.openpty()
    watch = subprocess.Popen(
        [Path(sys.executable).with_name("fleetctl"), "--rack", rack, "status", "--watch"],
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PHONERACK_HOME": str(tmp_path), "TERM": "xterm"},
    )
    os.close(terminal)
    shown = b""
    while shown.count(b"rack home: 2 phones") < 3:
        shown += os.read(controller, 4096)
    watch.send_signal(signal.SIGINT)
    while b"\x1b[?25h" not in shown:  # the cursor is there again
        shown += os.read(controller, 4096)
    _, said = watch.communicate()
    os.close(controller)
    assert watch.returncode == 130
    assert said.strip() == "fleetctl: interrupted"
