"""A throw-away Termux prefix for the modules' tests.

The prefix carries the host's real apt and dpkg behind wrappers that keep all state below it, as
on a phone, and a repository of tiny packages that a test can break.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = Path(__file__).parents[2] / "plugins" / "modules"

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

    def add(self, name: str, version: str, depends: str = "", postinst: str = "") -> Path:
        """Build a package that owns one file below the prefix."""
        root = self.folder / f"build-{name}-{version}"
        content = root / self.prefix.relative_to("/") / "share" / name
        content.parent.mkdir(parents=True)
        # Random bytes, so that cutting the archive cuts the content and not only padding.
        content.write_bytes(os.urandom(20_000))
        control = root / "DEBIAN"
        control.mkdir()
        fields = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: tests\n"
        fields += f"Depends: {depends}\n" if depends else ""
        (control / "control").write_text(fields + "Description: a test package\n")
        if postinst:
            (control / "postinst").write_text(f"#!/bin/sh\n{postinst}\n")
            (control / "postinst").chmod(0o755)
        deb = self.debs / f"{name}_{version}_all.deb"
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-b", root, deb], check=True, capture_output=True
        )
        shutil.rmtree(root)
        self.index()
        return deb

    def index(self) -> None:
        """Write Packages for what lies in the pool, broken or not."""
        entries = []
        for deb in sorted(self.debs.glob("*.deb")):
            fields = subprocess.run(["dpkg-deb", "-f", deb], capture_output=True, text=True)
            digest = hashlib.sha256(deb.read_bytes()).hexdigest()
            entries.append(
                f"{fields.stdout}Filename: ./pool/{deb.name}\n"
                f"Size: {deb.stat().st_size}\nSHA256: {digest}\n"
            )
        (self.folder / "Packages").write_text("\n".join(entries))


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
        for tool in ("apt-get", "apt-config"):
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
        # copy: rather than file:, so that archives pass through the cache as from a mirror.
        line = f"deb [trusted=yes] copy:{repository.folder} ./\n"
        (self.path / "etc/apt/sources.list").write_text(line)

    def refresh(self) -> None:
        subprocess.run([self.path / "bin/apt-get", "update"], check=True, capture_output=True)

    def status(self, *fields: str) -> str:
        """dpkg's view of all packages, one line each."""
        shown = "\t".join(f"${{{field}}}" for field in fields) + "\n"
        argv = [self.path / "bin/dpkg-query", "-W", "-f", shown]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
