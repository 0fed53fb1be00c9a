"""The Termux packages that phones of a rack have, and where they come from. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NEEDED = (
    *("python", "python-numpy", "libopenblas", "openssh", "termux-services", "termux-api"),
    *("iperf3", "rsync"),
)
"""What every phone needs, beside Open MPI of the rack's series."""

TORCH = ("python-torch", "python-torchvision")

ARCHITECTURES: Mapping[str, str] = {
    "termux-aarch64": "aarch64",
    "linux-aarch64": "arm64",
    "linux-x86_64": "amd64",
}
"""What the packages of each target call its processor."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A package repository outside, of which the rack's mirror takes what the phones need.

    `key` is the file of the public keys that sign it.
    """

    url: str
    key: Path
    distribution: str = "stable"
    component: str = "main"


@dataclass(frozen=True, slots=True)
class Packages:
    """Without an upstream, all packages come from the operator's folder.

    `also` are packages that phones get beside those that they need.
    """

    upstream: Upstream | None = None
    also: tuple[str, ...] = ()


def wanted(openmpi: str, torch: bool, also: tuple[str, ...] = ()) -> list[str]:
    """Packages of a phone as apt names them; `openmpi=5.0*` is any version of that series."""
    needed = (*NEEDED, *(TORCH if torch else ()))
    return [*needed, f"openmpi={openmpi}*", *(name for name in also if name not in needed)]
