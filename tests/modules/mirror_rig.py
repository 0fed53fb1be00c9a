"""The mirror's module with one mirror, as the role uses it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from termux_packages import build

type Row = list[str]


class Mirror:
    """The module with one mirror, and the operator's folder that is sent to it."""

    def __init__(self, folder: Path, run_module: Callable[..., dict[str, Any]]) -> None:
        self.root = folder / "mirror"
        self.packages = folder / "packages"
        self.packages.mkdir()
        self._keyring = folder / "key"
        self._run_module = run_module
        self.upstream: dict[str, str] | None = None

    def add(self, name: str, version: str, **options: Any) -> Path:
        return build(self.packages, name, version, **options)

    def call(self, check: bool = False, **options: Any) -> dict[str, Any]:
        folder = {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in self.packages.glob("*.deb")
        }
        return self._run_module(
            "package_mirror",
            check,
            root=str(self.root),
            keyring=str(self._keyring),
            rack="lab",
            folder=folder,
            upstream=self.upstream,
            architectures=["aarch64"],
            **{"wanted": [], **options},
        )

    def send(self, lacking: list[str]) -> None:
        for name in lacking:
            shutil.copy(self.packages / name, self.root / "inbox")

    def run(self, **options: Any) -> dict[str, Any]:
        """As the role does it: once more after what lacks has been sent."""
        first = self.call(**options)
        if not first["lacking"]:
            return first
        self.send(first["lacking"])
        return self.call(**options)

    def index(self, snapshot: str) -> str:
        """The signed index of a snapshot, its signature verified by the mirror's key."""
        dists = self.root / "public" / snapshot / "dists/stable"
        argv = ["gpg", f"--homedir={self._keyring}", "--batch", "--decrypt", dists / "InRelease"]
        release = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        packages = dists / "main/binary-aarch64/Packages"
        assert hashlib.sha256(packages.read_bytes()).hexdigest() in release
        assert "Origin: phonerack" in release
        return packages.read_text()


def versions(result: dict[str, Any], which: str = "packages") -> dict[str, str]:
    rows: list[Row] = result[which]
    return {name: version for name, version, _ in rows}
