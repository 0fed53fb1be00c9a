"""One serve a rack."""

from __future__ import annotations

import os
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
    child = os.fork()
    if child == 0:
        with serving(lock):
            os._exit(9)
    os.waitpid(child, 0)

    with serving(lock) as mine:
        assert server(lock) == mine
