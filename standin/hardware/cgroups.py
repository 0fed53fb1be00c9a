"""What a container really computes, and how much it may: straight from its control group.

Read and written once a second for every phone, which would be far too dear through podman.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from standin import engine
from standin.engine import CpuLimit

ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Group:
    """The control group of one container. Where it has gone, the container does not run."""

    accounting: Path
    limits: Path

    @classmethod
    def at(cls, path: str, root: Path = ROOT) -> Group:
        """The group at `path`, as podman tells it, under version 1 or 2."""
        inside = path.lstrip("/")
        if (root / "cgroup.controllers").exists():
            return cls(root / inside, root / inside)
        return cls(root / "cpuacct" / inside, root / "cpu" / inside)

    def used_seconds(self) -> float | None:
        """Processor time of all its processes since it started; None when it does not run."""
        try:
            if self.accounting != self.limits:
                return int((self.accounting / "cpuacct.usage").read_text()) / 1e9
            for line in (self.accounting / "cpu.stat").read_text().splitlines():
                if line.startswith("usage_usec "):
                    return int(line.split()[1]) / 1e6
        except OSError:
            pass
        return None

    def pids(self) -> list[int]:
        """Its processes, none when it does not run."""
        try:
            return [int(line) for line in (self.accounting / "cgroup.procs").read_text().split()]
        except OSError:
            return []

    def limit(self, wanted: CpuLimit) -> bool:
        """Set its limit unless it is that already; returns whether it was another."""
        quota, period = str(wanted.quota_microseconds), str(wanted.period_microseconds)
        try:
            if self.accounting == self.limits:
                path = self.limits / "cpu.max"
                if path.read_text().split() == [quota, period]:
                    return False
                path.write_text(f"{quota} {period}")
                return True
            quota_path = self.limits / "cpu.cfs_quota_us"
            period_path = self.limits / "cpu.cfs_period_us"
            if (quota_path.read_text().strip(), period_path.read_text().strip()) == (quota, period):
                return False
            quota_path.write_text("-1")  # else a period between the two could be refused
            period_path.write_text(period)
            quota_path.write_text(quota)
        except FileNotFoundError:
            return False
        return True


class Groups:
    """The control groups of a rack's containers. Podman is asked again only when told to."""

    def __init__(self, rack: str) -> None:
        self._rack = rack
        self._found: dict[str, Group] = {}
        self._is_stale = True
        self._turn = asyncio.Lock()

    def look_again(self) -> None:
        """Containers were started: those of before may be others."""
        self._is_stale = True

    async def find(self) -> Mapping[str, Group]:
        """The group of each host that runs, or ran; one that has ended tells so itself."""
        async with self._turn:
            if self._is_stale:
                self._is_stale = False
                paths = await asyncio.to_thread(engine.cgroup_paths, self._rack)
                self._found |= {host: Group.at(path) for host, path in paths.items()}
        return self._found
