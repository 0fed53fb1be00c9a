"""One serve a rack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleetctl.errors import ExitCode
from fleetctl.serve.lock import Serving, server, serving


def test_a_second_serve_is_told_who_serves(tmp_path: Path) -> None:
    lock = tmp_path / "serve.lock"
    assert server(lock) is None

    with serving(lock) as mine:
        assert mine.pid == os.getpid()
        assert server(lock) == mine
        with pytest.raises(Serving, match=f"by process {os.getpid()} of") as refused, serving(lock):
            pass
    assert refused.value.exit_code == ExitCode.HELD
    assert server(lock) is None


def test_a_killed_serve_is_in_nobodys_way(tmp_path: Path) -> None:
    lock = tmp_path / "serve.lock"
    program = "import os, sys; from pathlib import Path; from fleetctl.serve.lock import serving\n"
    program += "with serving(Path(sys.argv[1])): os._exit(9)"
    assert subprocess.run([sys.executable, "-c", program, str(lock)]).returncode == 9

    with serving(lock) as mine:
        assert server(lock) == mine
