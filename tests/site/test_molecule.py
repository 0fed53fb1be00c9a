"""The molecule scenarios, as tests, so that they run beside the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent

pytestmark = [pytest.mark.standin, pytest.mark.timeout(1500)]


@pytest.mark.parametrize("scenario", ["default"])
def test_the_scenario_converges_is_idempotent_and_verifies(scenario: str) -> None:
    done = subprocess.run(
        ["molecule", "test", "--scenario-name", scenario],
        cwd=PROJECT,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
