"""The hostname library of the release, preloaded."""

import os
import subprocess
import sys
from pathlib import Path

import mpi
import pytest

LIBRARY = mpi.SHARED / "release/lib/libphonerack_hostname.so"
NAME_FILE = Path("/data/data/com.termux/files/usr/etc/phonerack/name")


def names(**environment: str) -> list[str]:
    """What gethostname() and uname() say in a process, and the kernel's release beside them."""
    program = (
        "import os, socket; print(socket.gethostname(), os.uname().nodename, os.uname().release)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.fixture
def name_file():
    NAME_FILE.parent.mkdir(parents=True, exist_ok=True)
    yield NAME_FILE
    NAME_FILE.unlink(missing_ok=True)


def test_the_name_file_decides(name_file) -> None:
    name_file.write_text("phone007\n")
    release = os.uname().release
    assert names(LD_PRELOAD=str(LIBRARY)) == ["phone007", "phone007", release]
    assert names() == [os.uname().nodename, os.uname().nodename, release]


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_without_a_name_the_kernel_answers(name_file, content) -> None:
    if content is not None:
        name_file.write_text(content)
    assert names(LD_PRELOAD=str(LIBRARY))[:2] == [os.uname().nodename] * 2


def test_a_name_that_is_too_long_is_cut(name_file) -> None:
    name_file.write_text("x" * 300)
    assert names(LD_PRELOAD=str(LIBRARY))[:2] == ["x" * 64] * 2
