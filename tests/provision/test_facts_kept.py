"""What `site.yml` keeps of what phones say about themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleetctl.state import State

PROJECT = Path(__file__).resolve().parents[2]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
ASK = """
- hosts: phones
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: verify, tasks_from: facts}
"""


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_a_phones_clock_is_right_whatever_the_controllers_time_zone_is(
    tmp_path: Path, zone: str
) -> None:
    (tmp_path / "ask.yml").write_text(ASK)
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"controller": local}
    phones = {"hosts": {"phone001": local}}
    inventory = {"all": {"hosts": hosts, "children": {"phones": phones}}}
    inventory["all"]["vars"] = {"rack_dir": str(tmp_path)}
    (tmp_path / "hosts.yml").write_text(json.dumps(inventory))
    subprocess.run(
        [PLAYBOOK, "-i", tmp_path / "hosts.yml", tmp_path / "ask.yml"],
        cwd=PROJECT,
        env={
            **os.environ,
            "TZ": zone,
            "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
            "ANSIBLE_INVENTORY_ENABLED": "yaml",
        },
        stdin=subprocess.DEVNULL,
        check=True,
    )
    with State(tmp_path / "state.db") as state:
        _, facts = state.facts()["phone001"]
    assert facts["clock"]["offset_seconds"] == 0
    assert facts["clock"]["uncertainty_seconds"] < 3600
