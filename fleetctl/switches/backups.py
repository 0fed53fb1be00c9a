"""Dated copies of what switches were set to, without secrets, counters and timestamps."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from fleetctl.rack.files import write_atomic

_VOLATILE = re.compile(
    r"^(?:Building configuration.*|Current configuration.*|Using \d+ out of.*"
    r"|! (?:Last configuration change|NVRAM config last updated|No configuration change).*"
    r"|ntp clock-period .*)\n?",
    re.MULTILINE,
)


def normalise(text: str) -> str:
    """The configuration without counters and timestamps, so that equal ones are equal."""
    return _VOLATILE.sub("", text.replace("\r", "")).strip() + "\n"


def keep(folder: Path, text: str, now: datetime | None = None) -> Path:
    """Write a configuration, secrets concealed, unless the newest copy says the same already.

    `folder` is the switch's own. Returns the newest copy. Only its owner may read it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    wanted = normalise(text)
    newest = list_backups(folder)[:1]
    if newest and newest[0].read_text() == wanted:
        return newest[0]
    path = folder / f"{(now or datetime.now(UTC)):%Y-%m-%dT%H-%M-%S.%fZ}.cfg"
    write_atomic(path, wanted, mode=0o600)
    return path


def list_backups(folder: Path) -> list[Path]:
    """Copies of one switch, newest first."""
    return sorted(folder.glob("*.cfg"), reverse=True)
