"""site.yml over a rack whose phones work: the run goes on, and a rerun completes what was left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from launching import endless, launched

pytestmark = [pytest.mark.standin, pytest.mark.soak]

BUSY, IDLE = ("phone001", "phone002"), "phone003"
GONE = "iperf3"


def has_it(rack: Any, phone: str) -> bool:
    config = str(rack.folder / "ssh_config")
    asked = rack.run("ssh", "-F", config, phone, f"dpkg-query -W {GONE}", check=False)
    return bool(asked.returncode == 0)


def last_iteration(folder: Path) -> int:
    lines = (folder / "progress.jsonl").read_text().splitlines()
    return int(json.loads(lines[-1])["iteration"])


def test_what_works_for_a_run_is_left_as_it_is_until_that_is_over(
    rack: Any, tmp_path: Path
) -> None:
    for phone in (BUSY[0], IDLE):
        config = str(rack.folder / "ssh_config")
        rack.run("ssh", "-F", config, phone, f"apt-get remove -y {GONE}")
    with launched(rack, "--phones", ",".join(BUSY), endless(tmp_path)) as (process, folder):
        before = last_iteration(folder)
        site = rack.playbook("-t", "phones,verify")
        assert process.poll() is None
        assert last_iteration(folder) > before
        told = " ".join(site.stdout.split("NOT READY")[1].split())
        assert f"phone001, phone002 busy with run {folder.name}" in told
        assert (has_it(rack, BUSY[0]), has_it(rack, IDLE)) == (False, True)
        alone = rack.playbook("-t", "phones", "-l", ",".join(BUSY), check=False)
        assert alone.returncode == 2
        assert process.poll() is None
    again = rack.playbook("-t", "phones")
    assert "NOT READY" not in again.stdout
    assert has_it(rack, BUSY[0])
