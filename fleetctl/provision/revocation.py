"""Keys that nobody shall accept any more: the list, and OpenSSH's form of it, the KRL.

The list only grows, so its length is the KRL's version. It names keys, not certificates: whatever
certificate a revoked key bears, or will be given, is worthless too.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from fleetctl.errors import FleetError

type Kind = Literal["host", "rank", "operator"]

LIST = "revoked"
KRL = "krl"

_MAGIC = b"SSHKRL\n\0"
_HEADER = "# Keys that nobody accepts any more. Written by fleetctl; lines are only added.\n"
_MARK = "@revoked * "


class RevocationError(FleetError):
    """The list of revoked keys cannot be read, or not be made into a KRL."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """One key: its public line without a comment, what it was for, and whose it was."""

    key: str
    kind: Kind
    whose: str

    def line(self) -> str:
        return f"{self.key} {self.kind} {self.whose}"


def read_list(text: str) -> list[Revoked]:
    """The entries of the list. Raises RevocationError with the line that is none."""
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#") or not line.strip():
            continue
        words = line.split()
        if len(words) != 4 or words[2] not in get_args(Kind.__value__):
            raise RevocationError(
                f"line {number} of the list of revoked keys is damaged: {line[:60]!r}; "
                "put back the controller's folder from its backup"
            )
        entries.append(Revoked(" ".join(words[:2]), words[2], words[3]))  # type: ignore[arg-type]
    return entries


def write_list(entries: Iterable[Revoked]) -> str:
    return _HEADER + "".join(f"{entry.line()}\n" for entry in entries)


def extended(entries: Iterable[Revoked], more: Iterable[Revoked]) -> list[Revoked]:
    """`entries` and those of `more` whose keys are not among them yet."""
    found = {entry.key: entry for entry in entries}
    for entry in more:
        found.setdefault(entry.key, entry)
    return list(found.values())


def make_krl(entries: Iterable[Revoked]) -> bytes:
    """The KRL of these keys, by ssh-keygen."""
    keys = [entry.key for entry in entries]
    with tempfile.TemporaryDirectory() as folder:
        specification, made = Path(folder, "keys"), Path(folder, "krl")
        specification.write_text("".join(f"key: {key}\n" for key in keys))
        command = ("ssh-keygen", "-q", "-k", "-f", str(made), "-z", str(len(keys)))
        try:
            done = subprocess.run(
                (*command, str(specification)), capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            raise RevocationError("ssh-keygen is missing: install openssh-client") from None
        if done.returncode:
            raise RevocationError(f"ssh-keygen makes no KRL: {done.stderr.strip()}")
        return made.read_bytes()


def krl_version(krl: bytes) -> int | None:
    """The version of a KRL; None if it is none."""
    head = krl[:20]
    whole = len(head) == 20 and head.startswith(_MAGIC)
    return int.from_bytes(head[12:], "big") if whole else None


def with_revoked(known_hosts: str, entries: Iterable[Revoked]) -> str:
    """known_hosts with a `@revoked` line for exactly the revoked host keys.

    For the controller's own clients, of which asyncssh knows no KRL. Unchanged where it says so.
    """
    wanted = [f"{_MARK}{entry.key}" for entry in entries if entry.kind == "host"]
    lines = known_hosts.splitlines()
    present = [line for line in lines if line.startswith(_MARK)]
    if sorted(present) == sorted(wanted):
        return known_hosts
    return "\n".join([*(line for line in lines if line not in present), *wanted, ""])
