"""The molecule scenario `default`, as a test. Only in `make soak`: tests/site and one drawn case of
the matrix prove the like in `make test`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent

pytestmark = [pytest.mark.standin, pytest.mark.soak, pytest.mark.timeout(1500)]


def test_it_converges_is_idempotent_and_verifies() -> None:
    done = subprocess.run(
        ["molecule", "test", "--scenario-name", "default"],
        cwd=PROJECT,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
