"""A program that a phone compiles once; here with this machine's Python in the phone's place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetctl.checks.kept_code import command
from fleetctl.rack.variables import TERMUX_PREFIX

PROGRAM = "import sys\nprint('hello', *sys.argv[1:], __name__)\n"

type Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "phonerack").mkdir()

    def call(
        program: str = PROGRAM, *words: str, keep: bool = True, sent: str | None = None
    ) -> str:
        line = command("probe", program, *words, keep=keep)
        return subprocess.run(
            ["sh", "-c", line.replace(f"{TERMUX_PREFIX}/bin/python", sys.executable)],
            check=True,
            text=True,
            input=program if sent is None else sent,
            env={"HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
        ).stdout

    return call


def kept(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "phonerack").iterdir())


def test_what_was_compiled_once_runs_without_its_source(run: Run, tmp_path: Path) -> None:
    assert run(PROGRAM, "a b", "c") == "hello a b c __main__\n"
    assert kept(tmp_path) == ["probe.code"]
    assert run(PROGRAM, "d", sent="") == "hello d __main__\n"


def test_another_program_takes_its_place(run: Run, tmp_path: Path) -> None:
    run()
    assert run("print('other')") == "other\n"
    assert run("print('other')", sent="") == "other\n"
    assert kept(tmp_path) == ["probe.code"]


@pytest.mark.parametrize("place", [0, 3, 40, 70, 100, -1])
def test_a_damaged_file_is_compiled_anew(run: Run, tmp_path: Path, place: int) -> None:
    run()
    file = tmp_path / "phonerack/probe.code"
    whole = bytearray(file.read_bytes())
    whole[place] ^= 0x10
    file.write_bytes(whole)
    assert run() == "hello __main__\n"
    assert run(sent="") == "hello __main__\n"


@pytest.mark.parametrize("length", [0, 2, 4, 60, 80, 100])
def test_a_file_cut_short_is_compiled_anew(run: Run, tmp_path: Path, length: int) -> None:
    run()
    file = tmp_path / "phonerack/probe.code"
    file.write_bytes(file.read_bytes()[:length])
    assert run() == "hello __main__\n"


def test_it_is_not_kept_unasked_but_used(run: Run, tmp_path: Path) -> None:
    assert run(keep=False) == "hello __main__\n"
    assert kept(tmp_path) == []
    run()
    assert run(keep=False, sent="") == "hello __main__\n"


def test_a_bare_phone_has_nowhere_to_keep_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "phonerack").rmdir()
    assert run() == "hello __main__\n"
    assert not (tmp_path / "phonerack").exists()
