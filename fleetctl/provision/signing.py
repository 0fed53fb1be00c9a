"""Signatures under releases, made and checked by ssh-keygen.

A rack's release key lies in its ssh folder on the controller and never leaves it; phones get the
line that names it (`allowed_signers`) with every release.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from fleetctl.errors import FleetError

NAMESPACE = "phonerack-release"
"""What these signatures are for, so that one made for another purpose is never taken for one."""

KEY = "release"
"""Name of the private key in the rack's ssh folder."""


class SigningError(FleetError):
    """Something could not be signed, or a signature could not be checked."""


def signer(rack: str) -> str:
    """Who signs a rack's releases."""
    return f"{KEY}@{rack}"


def allowed_signers(key: Path) -> str:
    """The line by which ssh-keygen knows who signs with this key; empty where there is none."""
    try:
        kind, public, who = Path(f"{key}.pub").read_text().split()
    except FileNotFoundError:
        return ""
    return f'{who} namespaces="{NAMESPACE}" {kind} {public}'


def sign(key: Path, content: bytes) -> bytes:
    """An armoured signature; equal contents get equal ones. Raises SigningError."""
    if not key.exists():
        raise SigningError(f"no release key at {key}: `site.yml -t controller` makes it")
    done = _ssh_keygen("-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(key), content=content)
    if done.returncode != 0:
        raise SigningError(f"{key} cannot sign: {_said(done)}")
    return done.stdout


def is_signed(key: Path, content: bytes, signature: bytes) -> bool:
    """Whether `signature` is this key's under exactly this content. Raises SigningError."""
    signers = allowed_signers(key)
    with tempfile.TemporaryDirectory(prefix="phonerack-") as scratch:
        line, file = Path(scratch) / "signers", Path(scratch) / "signature"
        line.write_text(signers + "\n")
        file.write_bytes(signature)
        who = signers.partition(" ")[0]
        options = ("-n", NAMESPACE, "-I", who, "-f", str(line), "-s", str(file))
        return _ssh_keygen("-Y", "verify", *options, content=content).returncode == 0


def _ssh_keygen(*arguments: str, content: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["ssh-keygen", *arguments], input=content, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise SigningError("ssh-keygen is not installed: install OpenSSH's client") from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
