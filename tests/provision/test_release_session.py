"""What role release has sessions preload: files that no package takes away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

VARIABLES = Path(__file__).resolve().parents[2] / "roles/release/vars/main.yml"
LIB = "/data/data/com.termux/files/usr/lib"


def own_files(contact: str) -> list[dict[str, Any]]:
    """The role's files of a phone that has said this at first contact."""
    loader = DataLoader()
    variables = loader.load_from_file(str(VARIABLES), trusted_as_template=True) | {
        "termux_prefix": "/data/data/com.termux/files/usr",
        "termux_home": "/data/data/com.termux/files/home",
        "termux_said": {"stdout": contact},
    }
    templar = Templar(loader=loader, variables=variables)
    files: list[dict[str, Any]] = templar.template(variables["_release_own_files"])
    return files


@pytest.mark.parametrize("name", ["libtermux-exec.so", "libtermux-exec-ld-preload.so"])
def test_whatever_the_package_calls_it_sessions_preload_a_copy_under_our_name(name: str) -> None:
    files = own_files(f"preload={LIB}/{name}\r\nstate=ready\r\n")

    session = files[-1]
    assert session["content"].splitlines()[-1] == (
        f"SetEnv LD_PRELOAD={LIB}/libphonerack_exec.so:{LIB}/libphonerack_hostname.so"
    )
    sources = {file["path"]: file["source"] for file in files[:-1]}
    assert sources[f"{LIB}/libphonerack_exec.so"] == f"{LIB}/{name}"
    # Tried as a session would start, before anything takes effect.
    assert f"LD_PRELOAD={LIB}/{name}:/data/data/" in session["validate"]


@pytest.mark.parametrize("said", ["preload=\nstate=ready\n", "state=ready\n"])
def test_without_termux_exec_there_is_nothing_to_copy(said: str) -> None:
    files = own_files(said)

    assert [file["path"] for file in files[:-1]] == [f"{LIB}/libphonerack_hostname.so"]
    assert f"SetEnv LD_PRELOAD={LIB}/libphonerack_hostname.so\n" in files[-1]["content"]
