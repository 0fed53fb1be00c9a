"""Packages and repositories for tests: built, repacked, indexed, signed and served for real."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PREFIX = Path("/data/data/com.termux/files/usr")


def build(
    into: Path,
    name: str,
    version: str,
    *,
    prefix: Path = PREFIX,
    architecture: str = "all",
    size: int = 20_000,
    files: dict[str, str] | None = None,
    scripts: dict[str, str] | None = None,
    **fields: str,
) -> Path:
    """A package that owns `share/<name>`, of `size` random bytes, below the prefix.

    `files` are further ones by path below the prefix, executable; `scripts` are dpkg's.
    """
    with tempfile.TemporaryDirectory(dir=into, prefix=".build-") as folder:
        root = Path(folder)
        below = root / prefix.relative_to("/")
        # Random bytes, so that cutting the archive cuts the content and not only padding.
        _write(below / "share" / name, os.urandom(size), 0o644)
        for path, text in (files or {}).items():
            _write(below / path, text.encode(), 0o755)
        control = {
            "Package": name,
            "Version": version,
            "Architecture": architecture,
            "Maintainer": "tests",
            "Installed-Size": str(size // 1024 + 1),
            **{key.replace("_", "-").title(): value for key, value in fields.items() if value},
            "Description": "a test package",
        }
        text = "".join(f"{key}: {value}\n" for key, value in control.items())
        _write(root / "DEBIAN/control", text.encode(), 0o644)
        for script, body in (scripts or {}).items():
            _write(root / "DEBIAN" / script, f"#!/bin/sh\n{body}\n".encode(), 0o755)
        return pack(root, into)


def repack(
    deb: Path, version: str, into: Path, change: Callable[[Path], object] | None = None
) -> Path:
    """The same package as another version; `change` may alter its tree first."""
    with tempfile.TemporaryDirectory(dir=into, prefix=".build-") as folder:
        root = Path(folder) / "tree"
        subprocess.run(["dpkg-deb", "-R", deb, root], check=True, capture_output=True)
        control = root / "DEBIAN/control"
        lines = control.read_text().splitlines()
        lines = [f"Version: {version}" if line.startswith("Version:") else line for line in lines]
        control.write_text("\n".join(lines) + "\n")
        if change is not None:
            change(root)
        return pack(root, into)


def pack(root: Path, into: Path) -> Path:
    said = subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zxz", "-z0", "-b", root, into],
        check=True,
        capture_output=True,
        text=True,
    )
    return Path(said.stdout.rpartition(" in '")[2].strip().removesuffix("'."))


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def index(debs: Iterable[Path], folder: Path) -> str:
    """An index of packages, broken ones too, by paths relative to `folder`."""
    entries = []
    for deb in sorted(debs):
        fields = subprocess.run(["dpkg-deb", "-f", deb], capture_output=True, text=True)
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        entries.append(
            f"{fields.stdout}Filename: {deb.relative_to(folder)}\n"
            f"Size: {deb.stat().st_size}\nSHA256: {digest}\n"
        )
    return "\n".join(entries)


class Upstream:
    """A signed repository such as Termux's, with a log of what is asked of it.

    `year`: when its key is made and what it publishes is signed, if not now.
    """

    def __init__(self, folder: Path, year: int | None = None) -> None:
        self._clock = [f"--faked-system-time={year}0101T000000!"] if year else []
        self.folder = folder
        self.pool = folder / "pool"
        self.pool.mkdir(parents=True)
        self._keys = folder.parent / f"{folder.name}-keys"
        self._keys.mkdir(mode=0o700)
        self._gpg("--passphrase=", "--quick-generate-key", "upstream", "ed25519", "sign", "never")
        self._second = 0
        self.asked: list[str] = []
        self.gone_after: int | None = None
        """After so many questions in all it answers no more; None: it is there."""

    def add(self, *arguments: Any, **options: Any) -> Path:
        """`build` a package into the pool."""
        return build(self.pool, *arguments, **options)

    @property
    def key(self) -> bytes:
        return self._gpg("--export", "--armor")

    def publish(self, *architectures: str, origin: str = "upstream") -> None:
        """Sign an index of what lies in the pool; a package of all architectures is in each."""
        dists = self.folder / "dists/stable"
        shutil.rmtree(dists, ignore_errors=True)
        sums = []
        for arch in architectures:
            debs = [d for d in self.pool.glob("*.deb") if d.stem.rsplit("_", 1)[1] in (arch, "all")]
            name = f"main/binary-{arch}/Packages"
            content = index(debs, self.folder).encode()
            _write(dists / name, content, 0o644)
            sums.append(f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}")
        release = (
            f"Origin: {origin}\nLabel: {origin}\nSuite: stable\nCodename: stable\n"
            "Date: Thu, 01 Jan 2026 00:00:00 UTC\nComponents: main\n"
            f"Architectures: {' '.join(architectures)}\nSHA256:\n" + "\n".join(sums) + "\n"
        )
        (dists / "Release").write_text(release)
        signed = self._gpg("--clearsign", "--output", "-", str(dists / "Release"))
        (dists / "InRelease").write_bytes(signed)
        # HTTP tells versions apart by whole seconds.
        self._second = max(self._second + 1, int(time.time()))
        os.utime(dists / "InRelease", (self._second, self._second))

    @property
    def fetched(self) -> list[str]:
        """Names of the packages that were asked for, in order."""
        return [path.rpartition("/")[2] for path in self.asked if path.endswith(".deb")]

    @contextmanager
    def served(self, address: str = "127.0.0.1") -> Iterator[str]:
        """Answer on `address`; the repository's URL."""
        upstream = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                if upstream.gone_after is not None and len(upstream.asked) >= upstream.gone_after:
                    self.close_connection = True
                    return
                super().do_GET()

            def log_request(self, *_: Any) -> None:
                upstream.asked.append(self.path)

            def log_message(self, *_: Any) -> None:
                pass

        handler = partial(Handler, directory=str(self.folder))
        with ThreadingHTTPServer((address, 0), handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://{address}:{server.server_address[1]}"
            finally:
                server.shutdown()
                thread.join()

    def _gpg(self, *arguments: str) -> bytes:
        home = f"--homedir={self._keys}"
        argv = ["gpg", home, "--batch", "--yes", *self._clock, *arguments]
        said = subprocess.run(argv, check=True, capture_output=True).stdout
        # It fails where an agent has just ended by itself.
        subprocess.run(["gpgconf", home, "--kill", "gpg-agent"], check=False)
        return said
