"""Where the case `interrupted` breaks runs off."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PHONES = ("Meet the phones", "Provision the phones")
OUTPUT = """
PLAY [Check the rack] ****
TASK [Look] ****
PLAY [Meet the phones] ****
TASK [termux : Ask the phone what it has] ****
ok: [phone001]
PLAY [Provision the phones] ****
TASK [phone : Install the packages] ****
TASK [phone : Write the files] ****
PLAY [Set monitoring up] ****
TASK [Look] ****
""".splitlines()


@pytest.fixture(scope="module")
def module() -> ModuleType:
    file = PROJECT / "molecule/matrix/files/break_off.py"
    spec = importlib.util.spec_from_file_location("break_off", file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_the_tasks_of_a_phase_are_counted_by_ansible_itself(
    module: ModuleType, tmp_path: Path
) -> None:
    said = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"),
            *("-i", PROJECT / "molecule/matrix/cases/interrupted/rack.yml"),
            *("playbooks/phones.yml", "--list-tasks"),
        ],
        cwd=PROJECT,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
            "PHONERACK_HOME": str(tmp_path),
        },
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    plays = module.listed(said)
    assert set(plays) > set(PHONES)
    assert sum(plays.values()) == said.count("TAGS: ") - len(plays)
    assert plays["Provision the phones"] > 10


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (1, "TASK [termux : Ask the phone what it has] ****"),
        (3, "TASK [phone : Write the files] ****"),
        (9, "PLAY [Set monitoring up] ****"),
    ],
)
def test_the_tasks_of_its_plays_are_counted_and_its_end_is_the_last(
    module: ModuleType, number: int, line: str
) -> None:
    assert module.reaches(OUTPUT, PHONES, number) == line


def test_an_output_that_ends_before_is_none(module: ModuleType) -> None:
    assert module.reaches(OUTPUT[:7], PHONES, 9) is None
