"""What the role writes for a Grafana that somebody has installed; Ansible itself writes it here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
DASHBOARDS = {file.name for file in (PROJECT / "exporters/dashboards").glob("*.json")}
RACK = {"rack_name": "lab", "rack_services_address": "10.0.0.2", "ansible_managed": "by a test"}


def play(task: dict[str, Any], folder: str, work: Path) -> subprocess.CompletedProcess[str]:
    """Run a task on this machine, with `folder` as Grafana's."""
    book = work / "play.yml"
    play = {"name": "Here", "hosts": "localhost", "gather_facts": False, "tasks": [task]}
    book.write_text(yaml.safe_dump([play]))
    given = RACK | {
        "monitoring_grafana_folder": folder,
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
    }
    return subprocess.run(
        ["ansible-playbook", "-i", "localhost,", str(book), "-e", json.dumps(given)],
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
            "ANSIBLE_INVENTORY_ENABLED": "host_list",
        },
        cwd=PROJECT,
        text=True,
        capture_output=True,
        timeout=120,
    )


ROLE = {"name": "monitoring", "tasks_from": "grafana"}
WRITE = {"name": "Write", "ansible.builtin.include_role": ROLE}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grafana's folder after the role, in which a dashboard of a former version lay."""
    work = tmp_path_factory.mktemp("grafana")
    former = work / "provisioning/dashboards/phonerack/switches.json"
    former.parent.mkdir(parents=True)
    former.write_text("{}")
    done = play(WRITE, str(work / "provisioning"), work)
    assert done.returncode == 0, done.stdout + done.stderr
    return work / "provisioning"


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def test_the_data_source_is_the_racks_prometheus_with_its_pause_between_scrapes(
    written: Path,
) -> None:
    (source,) = read(written / "datasources/phonerack-lab.yaml")["datasources"]
    assert (source["type"], source["uid"]) == ("prometheus", "phonerack-lab")
    assert source["url"] == "http://10.0.0.2:9090"
    defaults = read(PROJECT / "roles/monitoring/defaults/main.yml")
    assert source["jsonData"]["timeInterval"] == f"{defaults['monitoring_scrape_seconds']}s"


def test_the_list_of_dashboards_points_to_ours_and_to_no_former_one(written: Path) -> None:
    (provider,) = read(written / "dashboards/phonerack.yaml")["providers"]
    folder = Path(provider["options"]["path"])
    assert folder.parent == written / "dashboards"
    assert {file.name for file in folder.iterdir()} == DASHBOARDS
    for name in DASHBOARDS:
        shipped = (PROJECT / "exporters/dashboards" / name).read_text()
        assert (folder / name).read_text() == shipped


@pytest.mark.soak
def test_a_second_run_changes_nothing(written: Path, tmp_path: Path) -> None:
    done = play(WRITE, str(written), tmp_path)
    assert "changed=0" in done.stdout, done.stdout + done.stderr


def test_a_folder_that_cannot_be_one_is_refused_before_anything_changes(tmp_path: Path) -> None:
    folder = "etc/grafana"
    first = read(PROJECT / "roles/monitoring/tasks/main.yml")[0]
    done = play(first, folder, tmp_path)
    assert done.returncode != 0
    assert f"monitoring_grafana_folder is {folder}; write an absolute path" in done.stdout
