"""The long tests' memory: what passed on this tree is not run again, all else is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).resolve().parents[2] / "tools/soak.py"

TESTS = """\
import os, signal, pytest
pytestmark = pytest.mark.soak
def test_good(): pass
def test_bad(): assert os.path.exists("mended")
@pytest.fixture
def torn():
    yield
    assert os.path.exists("mended")
def test_leaves_something_behind(torn): pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "tools/soak.py").write_text(SOAK.read_text())
    (tmp_path / "test_long.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = soak: long\n")
    (tmp_path / ".gitignore").write_text("__pycache__\n.*\nmended\n")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def soak(project: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/soak.py", "run"]
    return subprocess.run(command, cwd=project, env=os.environ, text=True, capture_output=True)


def outcomes(project: Path) -> dict[str, str]:
    rows = (project / "docs/soak.md").read_text().splitlines()
    cells = [row.split("|") for row in rows if row.startswith("| `")]
    return {row[1].strip(" `").removeprefix("test_long.py::"): row[2].strip() for row in cells}


def test_only_what_has_not_passed_on_this_tree_runs_again(project: Path) -> None:
    assert soak(project).returncode == 1
    found = {"test_good": "passed", "test_bad": "failed", "test_leaves_something_behind": "failed"}
    assert outcomes(project) == found

    (project / "mended").touch()
    (project / "docs/other.md").write_text("Documentation is no reason to run a test again.")
    again = soak(project)
    assert "2 passed, 1 deselected" in again.stdout
    assert again.returncode == 0
    assert outcomes(project) == dict.fromkeys(found, "passed")

    assert soak(project).returncode == 0
    (project / "new.py").touch()
    assert "3 passed" in soak(project).stdout


def test_an_interrupted_run_goes_on_where_it_was(project: Path) -> None:
    interrupting = TESTS.replace(
        'def test_bad(): assert os.path.exists("mended")',
        'def test_bad():\n    if not os.path.exists("mended"): os.kill(os.getpid(), signal.SIGINT)',
    )
    (project / "test_long.py").write_text(interrupting)
    assert soak(project).returncode == 2
    assert outcomes(project) == {"test_good": "passed", "test_bad": "unfinished"}
    (project / "mended").touch()
    assert "2 passed, 1 deselected" in soak(project).stdout
