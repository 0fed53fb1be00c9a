"""Fixtures that the whole suite shares: one stand-in rack, brought up bare and then provisioned.

The rack costs minutes, so it lives as long as the session. What changes it (a fault, another
Open MPI) puts it back.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from which_rack import NAME, SUBNET

# How long an example takes says nothing about the code: the first one may import a library.
# `make test` tries the same examples every time; `pytest --hypothesis-profile new` looks for more.
settings.register_profile("new", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same")

# A suite that runs in the background inherits ignored signals, and would hand them on to the
# commands that it interrupts.
for _number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(
            _number, signal.SIG_DFL if _number == signal.SIGHUP else signal.default_int_handler
        )

PROJECT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

DRAINED = "phone006"
"""Somebody has drained it before site.yml runs for the first time."""


PROVISIONED = ("bench", "cli", "guard", "launch", "monitoring", "site")
"""Folders whose tests share the provisioned rack."""

ORDER = ("trainer", "molecule", "standin")
"""After the provisioned rack, that of what takes long: so two workers end together."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="needs root"))

    def turn(item: pytest.Item) -> int:
        folder = item.path.parent.name
        if folder in PROVISIONED:
            return -1
        return ORDER.index(folder) if folder in ORDER else len(ORDER)

    items.sort(key=turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker of pytest-xdist takes a whole file, and all files that share a rack."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # the lab image has no pytest-xdist

    class WholeFiles(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = Path(nodeid.partition("::")[0])
            if file.parent.name in PROVISIONED:
                return "the provisioned rack"
            return str(file.parent if file.parent.name in ("standin", "molecule") else file)

    return WholeFiles(config, log)


@dataclass(frozen=True)
class RackUnderTest:
    """A stand-in rack of six phones on two switches, apart from any that a person has up."""

    home: Path
    file: Path
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.home / NAME

    @property
    def env(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PHONERACK_HOME": str(self.home),
            "PHONERACK_RACK": str(self.file),
            "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
            "COLUMNS": "160",
        }

    def run(
        self, *command: str, check: bool = True, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the project in the rack's environment; its output is kept as text."""
        done = subprocess.run(
            command, cwd=PROJECT, env=self.env, text=True, capture_output=True, timeout=timeout
        )
        if check and done.returncode:
            pytest.fail(
                f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def fleetctl(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run("fleetctl", *arguments, **options)

    def fleetctl_json(self, *arguments: str) -> Any:
        return json.loads(self.fleetctl(*arguments, "-o", "json").stdout)

    def playbook(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run site.yml; the first time takes three minutes, where other racks are up many more."""
        return self.run(
            "ansible-playbook",
            "-i",
            str(self.file),
            "site.yml",
            *arguments,
            timeout=3000,
            **options,
        )

    @contextmanager
    def openmpi(self, series: str) -> Iterator[None]:
        """The rack under another series of Open MPI, and back again."""
        before = self.file.read_text()
        self.file.write_text(f'{before}\nversions: {{openmpi: "{series}"}}\n')
        try:
            self.playbook("-t", "phones,verify")
            yield
        finally:
            self.file.write_text(before)
            self.playbook("-t", "openmpi")

    def podman(self, phone: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside a phone's container, past ssh, whatever its result."""
        return self.run("podman", "exec", f"pr-{NAME}-{phone}", *command, check=False)


@pytest.fixture(scope="session")
def bare_rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RackUnderTest]:
    """The rack as the box of phones leaves it: enrolled, nothing installed, no addresses yet."""
    home = tmp_path_factory.mktemp("phonerack-home")
    file = home / "rack-under-test.yml"
    shipped = (PROJECT / "inventory/standin.yml").read_text()
    file.write_text(
        shipped.replace("10.138.0.", f"{SUBNET}.").replace("rack: standin", f"rack: {NAME}")
    )
    rack = RackUnderTest(home, file)
    try:
        rack.fleetctl("standin", "up", timeout=900)
        yield rack
    finally:
        rack.fleetctl("standin", "down")


@pytest.fixture(scope="session")
def provisioned_rack(bare_rack: RackUnderTest) -> RackUnderTest:
    """The rack after site.yml; what the virgin phones and the first run were like is evidence."""
    for program in ("python", "mpirun"):
        bare_rack.evidence[program] = bare_rack.podman(
            "phone001", "/system/bin/sh", "-c", f"command -v {program}"
        )
    bare_rack.fleetctl("drain", DRAINED, "--why", "swollen")
    bare_rack.evidence["converge"] = bare_rack.playbook()
    bare_rack.evidence["states"] = {
        phone["name"]: phone["state"] for phone in bare_rack.fleetctl_json("status")["phones"]
    }
    bare_rack.fleetctl("undrain", DRAINED)
    return bare_rack
