"""Asking a live rack's Prometheus, on its services host."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from which_rack import SUBNET

if TYPE_CHECKING:
    from conftest import RackUnderTest

type Series = list[tuple[dict[str, str], float]]

SERVICES = f"{SUBNET}.2"

SOURCES = {"phonerack_thermal_": "thermal", "phonerack_cpu_frequency_": "frequency"}
"""Sources that a vendor may deny, and so a stand-in, by what their metrics begin with."""


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310
        text: str = answer.read().decode()
        return text


def query(expression: str, services: str = SERVICES) -> Series:
    """What Prometheus answers now: labels and value of each series."""
    parameters = urllib.parse.urlencode({"query": expression})
    answer = json.loads(get(f"http://{services}:9090/api/v1/query?{parameters}"))
    return [(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]


def eventually(look: Callable[[], bool], what: str) -> None:
    for _ in range(240):
        if look():
            return
        time.sleep(0.5)
    pytest.fail(f"never: {what}")


def in_services(rack: RackUnderTest, *command: str, text: str = "") -> tuple[int, str]:
    """Exit code and output of a command on the services host that is given `text`."""
    done = subprocess.run(
        ["podman", "exec", "-i", f"pr-{rack.folder.name}-services", *command],
        input=text,
        text=True,
        capture_output=True,
    )
    return done.returncode, done.stdout + done.stderr
