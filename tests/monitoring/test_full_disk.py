"""A real Prometheus on a file system that fills up: what still works, and what people are told."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from rulebook import rendered, settings

pytestmark = [
    pytest.mark.tools,
    pytest.mark.soak,
    pytest.mark.skipif(not shutil.which("prometheus"), reason="needs Prometheus"),
]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Eight megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def prometheus(folder: Path, disk: Path) -> Iterator[str]:
    """Prometheus with the role's rules, that asks itself each second; where it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (folder / "rules.yml").write_text(rendered("rules.yml", settings()))
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            {
                "job_name": "prometheus",
                "static_configs": [{"targets": [address], "labels": {"rack": "lab"}}],
            }
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={disk / 'data'}",
                f"--web.listen-address={address}",
            ],
            stderr=log,
        )
    try:
        yield f"http://{address}/api/v1"
    finally:
        process.terminate()
        process.wait()


def get(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310
            return json.load(answer)["data"]
    except urllib.error.URLError:
        return {}


def eventually(look: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if look():
            return
        time.sleep(1)
    pytest.fail(f"never: {what}")


def firing(base: str) -> set[str]:
    """But that nobody takes its alerts: there is no Alertmanager here."""
    alerts = get(f"{base}/alerts").get("alerts", [])
    found = {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}
    return found - {"AlertsNotSent"}


@pytest.mark.timeout(1800)
def test_people_are_told_of_a_full_disk_and_all_goes_on_when_there_is_room(
    tmp_path: Path, small_disk: Path
) -> None:
    with prometheus(tmp_path, small_disk) as base:
        eventually(lambda: firing(base) == {"Watchdog"} and writes(base), "all is well")
        subprocess.run(
            ["dd", "if=/dev/zero", f"of={small_disk / 'filler'}", "bs=4k"], capture_output=True
        )
        told = {"Watchdog", "PrometheusNotWriting"}
        eventually(lambda: firing(base) == told, "the full disk is told")
        assert not writes(base)
        (small_disk / "filler").unlink()
        eventually(lambda: writes(base), "it writes again")
        eventually(lambda: firing(base) == {"Watchdog"}, "it is told no more")


def writes(base: str) -> bool:
    recent = urllib.parse.quote('count_over_time(up{job="prometheus"}[10s])')
    return bool(get(f"{base}/query?query={recent}").get("result"))
