"""What the exporter is told: a JSON document that provisioning writes. Secrets stand elsewhere."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION = 1
IOS = "cisco_ios"


@dataclass(frozen=True)
class Port:
    """One port of the rack file. `label` is what its description shall be; `vlan` is None where
    it carries several. A reserved port has no intention: `label` and `vlan` do not count."""

    number: int
    interface: str
    role: str
    label: str
    phone: str
    vlan: int | None
    enabled: bool


@dataclass(frozen=True)
class Switch:
    """One switch. `vlan` is the phones': some switches show their bridge one VLAN at a time."""

    name: str
    address: str
    platform: str
    hostname: str
    vlan: int
    ports: tuple[Port, ...]


@dataclass(frozen=True)
class Settings:
    address: str
    port: int
    community_file: Path
    switches: tuple[Switch, ...]
    every_seconds: float = 30.0
    limit_seconds: float = 20.0
    snmp_port: int = 161


def read_settings(path: Path) -> Settings:
    """Raises OSError, ValueError."""
    return parse_settings(json.loads(path.read_bytes()))


def parse_settings(document: dict[str, Any]) -> Settings:
    """Raises ValueError with what is wrong."""
    found = dict(document)
    if found.pop("version", None) != VERSION:
        raise ValueError(f"the settings are not of version {VERSION}: run site.yml -t monitoring")
    try:
        switches = tuple(
            Switch(**{**switch, "ports": tuple(Port(**port) for port in switch["ports"])})
            for switch in found.pop("switches")
        )
        community_file = Path(found.pop("community_file"))
        return Settings(community_file=community_file, switches=switches, **found)
    except (KeyError, TypeError) as problem:
        raise ValueError(f"the settings are not complete: {problem}") from None
