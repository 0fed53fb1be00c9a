"""A throw-away Termux prefix for the modules' tests.

The prefix carries the host's real apt and dpkg behind wrappers that keep all state below it, as
on a phone, and a repository of tiny packages that a test can break.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import ansible.module_utils
from termux_packages import build, index

MODULES = Path(__file__).parents[2] / "plugins" / "modules"
# As ansible.cfg does it for the modules when Ansible sends them.
ansible.module_utils.__path__.append(str(MODULES.parent / "module_utils"))

APT_CONF = """\
Dir "{prefix}";
Dir::State "{prefix}/var/lib/apt";
Dir::State::status "{prefix}/var/lib/dpkg/status";
Dir::Cache "{prefix}/var/cache/apt";
Dir::Etc "{prefix}/etc/apt";
Dir::Log "{prefix}/var/log/apt";
Dir::Bin::methods "/usr/lib/apt/methods";
Dir::Bin::dpkg "{prefix}/bin/dpkg";
APT::Sandbox::User "";
"""


class ModuleFailure(Exception):
    """The module called fail_json; args[0] is its result."""

    @property
    def result(self) -> dict[str, Any]:
        return self.args[0]


class ModuleExit(Exception):
    """The module called exit_json; args[0] is its result."""


def load(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, MODULES / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Repository:
    """A flat package repository that apt reads by file: URI."""

    def __init__(self, folder: Path, prefix: Path) -> None:
        self.folder = folder
        self.prefix = prefix
        self.debs = folder / "pool"
        self.debs.mkdir(parents=True)

    def add(self, name: str, version: str, postinst: str = "", **options: Any) -> Path:
        """Build a package that owns one file below the prefix."""
        return self.build(
            name, version, scripts={"postinst": postinst} if postinst else {}, **options
        )

    def build(self, name: str, version: str, **options: Any) -> Path:
        deb = build(self.debs, name, version, prefix=self.prefix, **options)
        self.index()
        return deb

    def index(self) -> None:
        """Write Packages for what lies in the pool, broken or not."""
        text = index(self.debs.glob("*.deb"), self.folder)
        (self.folder / "Packages").write_text(text)
        digest = hashlib.sha256(text.encode()).hexdigest()
        (self.folder / "Release").write_text(
            "Origin: phonerack\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n"
            f" {digest} {len(text.encode())} Packages\n"
        )

    @property
    def source(self) -> str:
        """The line of sources.list that leads here; copy: rather than file:, so that archives pass
        through the cache as from a mirror."""
        return f"deb [trusted=yes] copy:{self.folder} ./"

    def snapshot(self, name: str, **options: Any) -> dict[str, Any]:
        """It as the mirror's snapshot, for termux_pkg."""
        return {"name": name, "source": self.source, **options}


class Prefix:
    """A Termux prefix with working apt and dpkg."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for folder in ("bin", "etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/log/apt"):
            (path / folder).mkdir(parents=True)
        for folder in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
            (path / folder).mkdir(parents=True)
        for folder in ("info", "updates", "triggers"):
            (path / "var/lib/dpkg" / folder).mkdir(parents=True)
        (path / "var/lib/dpkg/status").touch()
        (path / "etc/apt/apt.conf").write_text(APT_CONF.format(prefix=path))
        for tool in ("apt-get", "apt-cache", "apt-config"):
            self.script(tool, f'APT_CONFIG={path}/etc/apt/apt.conf exec /usr/bin/{tool} "$@"')
        admin = f"--admindir={path}/var/lib/dpkg"
        forced = "--force-not-root --force-script-chrootless --force-bad-path"
        self.script("dpkg", f'exec /usr/bin/dpkg {admin} {forced} --log=/dev/null "$@"')
        self.script("dpkg-query", f'exec /usr/bin/dpkg-query {admin} "$@"')
        self.script("dpkg-deb", 'exec /usr/bin/dpkg-deb "$@"')

    def script(self, name: str, body: str) -> None:
        file = self.path / "bin" / name
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)

    def source(self, repository: Repository) -> None:
        (self.path / "etc/apt/sources.list").write_text(f"{repository.source}\n")

    def refresh(self) -> None:
        subprocess.run([self.path / "bin/apt-get", "update"], check=True, capture_output=True)

    def status(self, *fields: str) -> str:
        """dpkg's view of all packages, one line each."""
        shown = "\t".join(f"${{{field}}}" for field in fields) + "\n"
        argv = [self.path / "bin/dpkg-query", "-W", "-f", shown]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
