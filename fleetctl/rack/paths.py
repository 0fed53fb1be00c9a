"""Where the controller keeps what belongs to one rack."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


def phonerack_home() -> Path:
    """$PHONERACK_HOME, else ~/.local/state/phonerack."""
    chosen = os.environ.get("PHONERACK_HOME")
    return Path(chosen).expanduser() if chosen else Path.home() / ".local/state/phonerack"


@dataclass(frozen=True, slots=True)
class RackPaths:
    """The folder of one rack on the controller and what lies in it."""

    rack: str
    home: Path = field(default_factory=phonerack_home)

    @property
    def dir(self) -> Path:
        return self.home / self.rack

    @property
    def state_db(self) -> Path:
        return self.dir / "state.db"

    @property
    def last_failed(self) -> Path:
        """The phones of the node set `@last-failed`."""
        return self.dir / "last_failed.json"

    @property
    def provisions(self) -> Path:
        """The last runs of `fleetctl provision`, a folder each."""
        return self.dir / "provisions"

    @property
    def lock_file(self) -> Path:
        """The lock file of a rack whose rack file has none beside it (the stand-in's)."""
        return self.dir / "rack.lock.yml"

    @property
    def ssh(self) -> Path:
        return self.dir / "ssh"

    @property
    def ca(self) -> Path:
        return self.ssh / "ca"

    @property
    def ca_pub(self) -> Path:
        return self.ssh / "ca.pub"

    @property
    def operator(self) -> Path:
        return self.ssh / "operator"

    @property
    def operator_pub(self) -> Path:
        return self.ssh / "operator.pub"

    @property
    def operator_cert(self) -> Path:
        return self.ssh / "operator-cert.pub"

    @property
    def known_hosts(self) -> Path:
        return self.ssh / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        return self.dir / "ssh_config"

    @property
    def runs(self) -> Path:
        return self.dir / "runs"

    @property
    def queue_db(self) -> Path:
        """Jobs that wait for phones, or have been given some."""
        return self.dir / "queue.db"

    @property
    def serve_lock(self) -> Path:
        """Held by the process that serves the rack."""
        return self.dir / "serve.lock"

    @property
    def last_checks(self) -> Path:
        """How the last checks of cabling and packages ended."""
        return self.dir / "last_checks.json"

    @property
    def data(self) -> Path:
        return self.dir / "data"

    @property
    def releases(self) -> Path:
        return self.dir / "releases"

    @property
    def packages(self) -> Path:
        """Termux .deb files that the mirror serves."""
        return self.dir / "packages"

    @property
    def apks(self) -> Path:
        """The operator's files of Termux, Termux:API and Termux:Boot."""
        return self.dir / "apks"

    @property
    def adb(self) -> Path:
        """Home of the rack's own adb: its key, its server's socket."""
        return self.dir / "adb"

    @property
    def adb_endpoints(self) -> Path:
        """Phones that adb reaches by TCP from the start, one `ADDRESS:PORT` a line."""
        return self.adb / "endpoints"

    @property
    def mirror(self) -> Path:
        """What the mirror's last run noted: the rack's snapshot, and what phones have on it."""
        return self.dir / "mirror.json"

    @property
    def standin(self) -> Path:
        return self.dir / "standin"

    def ensure(self) -> None:
        """Make the folders, readable by their owner only."""
        for folder in (
            self.home,
            self.dir,
            self.ssh,
            self.runs,
            self.data,
            self.releases,
            self.packages,
            self.apks,
        ):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.dir.chmod(0o700)
