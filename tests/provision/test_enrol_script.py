"""The script that enrolment brings into Termux, run under a prefix of its own by the real dpkg."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleetctl.provision import enrol_termux
from fleetctl.provision.enrol_termux import setup_script
from fleetctl.rack.variables import TERMUX_HOME, TERMUX_PREFIX

pytestmark = pytest.mark.skipif(
    shutil.which("dpkg-deb") is None or shutil.which("ssh-keygen") is None,
    reason="needs dpkg and ssh-keygen",
)


@dataclass
class Termux:
    """A prefix with what the script finds there: dpkg, the log, and a place for the packages."""

    root: Path

    def __post_init__(self) -> None:
        for folder in ("usr/bin", "usr/tmp", "home", "parcel", "dpkg/info", "dpkg/updates"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "dpkg/status").touch()
        forced = "--force-not-root --force-script-chrootless --force-bad-path --log=/dev/null"
        self._program("dpkg", f'exec /usr/bin/dpkg --admindir={self.root}/dpkg {forced} "$@"')
        self._program("log", f'shift 2; echo "$*" >>{self.root}/log')

    def _program(self, name: str, body: str) -> None:
        path = self.root / "usr/bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    @property
    def config(self) -> Path:
        return self.root / "usr/etc/ssh/sshd_config"

    @property
    def include(self) -> str:
        return f"Include {self.root}/usr/etc/ssh/sshd_config.d/*.conf"

    def bring(self, version: str, config: str) -> None:
        """The package that has sshd's configuration, instead of those that came before."""
        shutil.rmtree(self.root / "parcel")
        (self.root / "parcel").mkdir()
        tree = self.root / "tree"
        file = tree / self.config.relative_to("/")
        for folder in (tree / "DEBIAN", file.parent):
            folder.mkdir(parents=True)
        file.write_text(config)
        (tree / "DEBIAN/conffiles").write_text(f"{self.config}\n")
        (tree / "DEBIAN/control").write_text(
            f"Package: openssh\nVersion: {version}\nArchitecture: all\nMaintainer: x\n"
            "Description: x\n"
        )
        words = ["dpkg-deb", "-Znone", "--build", str(tree), str(self.root / "parcel")]
        subprocess.run(words, check=True, capture_output=True)
        shutil.rmtree(tree)

    def run(self) -> str:
        """The script's last word."""
        text = setup_script("ssh-ed25519 A operator@lab", "n0nce", serve=False)
        for there, here in {
            "PATH=$PREFIX/bin:/system/bin": "PATH=$PREFIX/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "/system/bin/log": f"{self.root}/usr/bin/log",
            TERMUX_PREFIX: f"{self.root}/usr",
            TERMUX_HOME: f"{self.root}/home",
            enrol_termux.PARCEL: f"{self.root}/parcel",
        }.items():
            assert there in text
            text = text.replace(there, here)
        subprocess.run(["sh"], input=text, text=True, capture_output=True, check=False)
        return (self.root / "log").read_text().splitlines()[-1].removeprefix("n0nce ")


@pytest.fixture
def termux(tmp_path: Path) -> Termux:
    made = Termux(tmp_path)
    made.bring("1", f"{made.include}\nPasswordAuthentication yes\n")
    assert made.run() == "done"
    return made


def test_a_configuration_that_nobody_has_edited_is_the_packages_own(termux: Termux) -> None:
    assert termux.config.read_text() == f"{termux.include}\nPasswordAuthentication yes\n"
    new = f"# Of version 2\n\n{termux.include}\nPrintMotd yes\n"
    termux.bring("2", new)
    assert termux.run() == "done"
    assert termux.config.read_text() == new


def test_one_that_was_edited_asks_nobody_and_stays_but_for_the_racks_rules_first(
    termux: Termux,
) -> None:
    """sshd goes by the first value that it reads."""
    termux.config.write_text("PasswordAuthentication yes\nPort 8022\n")
    termux.bring("2", f"{termux.include}\nPrintMotd yes\n")
    for _ in range(2):
        assert termux.run() == "done"
        assert termux.config.read_text() == (
            f"{termux.include}\nPasswordAuthentication yes\nPort 8022\n"
        )


@pytest.mark.parametrize("after", ["PasswordAuthentication yes\n{}\n", "# {}\n", ""])
def test_rules_that_are_read_too_late_or_never_come_first(termux: Termux, after: str) -> None:
    termux.config.write_text(after.format(termux.include))
    assert termux.run() == "done"
    lines = termux.config.read_text().splitlines()
    assert lines[0] == termux.include
    assert lines[1:] == after.format(termux.include).splitlines()


def test_one_that_was_deleted_is_there_again(termux: Termux) -> None:
    termux.config.unlink()
    assert termux.run() == "done"
    assert termux.config.read_text().splitlines()[0] == termux.include
